package rollout

import "muru"

// suggest adds the nearest of the names that exist to an error about one that
// does not.
func suggest(err *muru.Error, name string, names []string) *muru.Error {
	if near := muru.Suggest(name, names); near != "" {
		return err.WithHint("did you mean %q?", near)
	}
	return err
}
