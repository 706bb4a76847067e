package edge

import (
	"net/textproto"

	"muru"
)

// canonicalMarks returns the names of answer fields to look for.
func canonicalMarks(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return all
}

// marked returns which of the routing's marks an answer's head carries, each
// once and as the routing writes it. One mark costs no allocation.
func (s *state) marked(header []muru.Field) (found []string) {
	for i, name := range s.marks {
		for _, f := range header {
			if f.Name != name {
				continue
			}
			if found == nil {
				found = s.routing.Marks[i : i+1 : i+1]
			} else {
				found = append(found, s.routing.Marks[i])
			}
			break
		}
	}
	return found
}
