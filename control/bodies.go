package control

// What crosses besides the values of [Muru] itself.

type startedRun struct {
	Run int `json:"run"`
}

type openedSession struct {
	Session string `json:"session"`
}

type sessionSource struct {
	Source string `json:"source"`
}

type incompleteAnswer struct {
	Incomplete bool `json:"incomplete"`
}

type completeRequest struct {
	Line string `json:"line"`
	Pos  int    `json:"pos"` // in bytes
}

type completeAnswer struct {
	Head       string   `json:"head"`
	Candidates []string `json:"candidates"`
	Tail       string   `json:"tail"`
}

type rolloutsAnswer struct {
	Rollouts []int `json:"rollouts"`
}
