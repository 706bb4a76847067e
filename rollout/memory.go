package rollout

import "slices"

// A memory is what a judge carries of one gate from step to step and over a
// restart of muru. The evidence follows from the tallies; a proof is of one
// window and begins anew.
type memory struct {
	gate    string
	tallies []tally
	peak    float64 // the largest ln E there was
	total   total   // of all windows
	clients string  // digest of who had an event; empty if left out
}

// Memory implements [judge].
func (s *sequential) Memory(clients bool) []memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory(clients)
}

func (s *sequential) memory(clients bool) []memory {
	var all []memory
	for i, r := range s.rated {
		w := s.scales[i]
		m := memory{gate: r.gate.Name, tallies: slices.Clone(w.worse.tallies), peak: w.worse.peak, total: s.whole(i, r)}
		if clients && len(w.clients.seen) > 0 {
			m.clients = w.clients.digest()
		}
		all = append(all, m)
	}
	return all
}

// Recall implements [judge]. A set of clients that cannot be read was refused
// when the record was.
func (s *sequential) Recall(all []memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rated {
		at := slices.IndexFunc(all, func(m memory) bool { return m.gate == r.gate.Name })
		if at < 0 {
			continue
		}
		m, w := all[at], s.scales[i]
		w.worse.restore(m.tallies, m.peak)
		w.carried = m.total
		w.clients, _ = restoreClients(m.clients)
	}
}
