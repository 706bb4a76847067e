package host

import "muru"

// Recall gives back the requests that wait for a worker of a release, with
// [muru.ErrDraining]: the release was taken out of the traffic, none of them
// has been started, and whoever gave them to it knows a better one by now. It
// does not wait, and the release takes new requests as before (previews, which
// may so lose their place in the queue).
//
// Otherwise they would wait behind what the release was taken out for, and
// each worker that is replaced because it is stuck would be given the next.
func (h *Host) Recall(id muru.ReleaseID) {
	if r := h.release(id); r != nil {
		r.recall()
	}
}

func (r *release) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		q := r.popQueue()
		if q == nil {
			return
		}
		q.turn <- turn{err: muru.ErrDraining}
	}
}
