package person

// The exit statuses of every verb.
const (
	StatusOK          = 0
	StatusFailed      = 1
	StatusUsage       = 2 // nothing was started
	StatusRefused     = 3
	StatusUnavailable = 4 // no daemon, port taken, state locked
	StatusTimeout     = 124
	StatusInterrupted = 130
)

// An ExitError ends the process with a status, whatever kind Err is of.
type ExitError struct {
	Status int
	Told   bool // the person has been told: nothing more is printed
	Err    error
}

// Error is what Err says.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }
