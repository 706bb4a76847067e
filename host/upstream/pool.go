package upstream

import "time"

// Close closes the idle connections and keeps no more of them. It waits for
// nobody: requests under way end on their own. It may be called twice.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = nil
	if c.timer != nil {
		c.timer.Stop()
		c.armed = false
	}
	c.mu.Unlock()
	for _, cn := range idle {
		cn.close()
	}
}

// pop returns the connection that has been idle for the shortest time, nil
// without one.
func (c *Client) pop() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	cn := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	return cn
}

// put gives a connection back to the pool.
func (c *Client) put(cn *conn) {
	if cn.cut.Load() || !c.keep(cn) {
		cn.close()
	}
}

func (c *Client) keep(cn *conn) bool {
	cn.rest()
	cn.reused = true
	if cap(cn.out) > firstWrite+smallBuffer {
		cn.out = nil
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= c.opt.MaxIdle {
		return false
	}
	cn.since = now
	c.idle = append(c.idle, cn)
	if !c.armed {
		c.arm(c.opt.IdleTimeout)
	}
	return true
}

// arm runs the timer; c.mu is held.
func (c *Client) arm(after time.Duration) {
	c.armed = true
	if c.timer == nil {
		c.timer = time.AfterFunc(after, c.expire)
	} else {
		c.timer.Reset(after)
	}
}

// expire closes connections that were idle for too long. The timer runs only
// while there are idle ones.
func (c *Client) expire() {
	c.mu.Lock()
	c.armed = false
	now, n := time.Now(), 0
	for n < len(c.idle) && now.Sub(c.idle[n].since) >= c.opt.IdleTimeout {
		n++
	}
	old := append([]*conn(nil), c.idle[:n]...)
	left := copy(c.idle, c.idle[n:])
	clear(c.idle[left:])
	c.idle = c.idle[:left]
	if left > 0 {
		c.arm(c.opt.IdleTimeout - now.Sub(c.idle[0].since))
	}
	c.mu.Unlock()
	for _, cn := range old {
		cn.close()
	}
}
