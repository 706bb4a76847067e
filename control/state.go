package control

import (
	"time"

	"muru"
)

// State is what a muru serves at one moment, as programs read it: names and
// numbers, percents as numbers, times in RFC 3339. The zero value is an empty
// muru. A State is a copy; nobody changes it later.
type State struct {
	Version   string        `json:"version"`
	PID       int           `json:"pid"`
	Host      string        `json:"host"` // the machine's name, for prompts
	You       string        `json:"you"`  // who asked, as events will name them; set by the server
	Started   time.Time     `json:"started"`
	LastEvent int           `json:"last_event"` // number of the newest event
	Apps      []AppInfo     `json:"apps"`       // by name
	Releases  []ReleaseInfo `json:"releases"`   // by app, then number
	Rollouts  []RolloutInfo `json:"rollouts"`   // oldest first; live ones, and the newest that ended
}

// LiveRollouts returns the numbers of the rollouts that are live.
func (s State) LiveRollouts() []int {
	var live []int
	for _, r := range s.Rollouts {
		if r.Live {
			live = append(live, r.Number)
		}
	}
	return live
}

// AppInfo is an app in a [State]. Releases are named "r6".
type AppInfo struct {
	Name      string             `json:"name"`
	URL       string             `json:"url"`
	Baseline  string             `json:"baseline,omitempty"`
	Candidate string             `json:"candidate,omitempty"`
	Split     map[string]float64 `json:"split,omitempty"` // release: percent
	Held      []string           `json:"held,omitempty"`
	Warm      []string           `json:"warm,omitempty"`
	Rollout   int                `json:"rollout,omitempty"` // the live one
}

// ReleaseInfo is a release in a [State].
type ReleaseInfo struct {
	App     string    `json:"app"`
	Name    string    `json:"name"` // such as "r6"
	State   string    `json:"state"`
	Share   float64   `json:"share"` // percent
	Kind    string    `json:"kind"`
	Source  string    `json:"source,omitempty"`
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"`
	Message string    `json:"message,omitempty"`
}

// RolloutInfo is a rollout in a [State].
type RolloutInfo struct {
	Number    int        `json:"number"`
	App       string     `json:"app"`
	Candidate string     `json:"candidate"` // such as "r6"
	Baseline  string     `json:"baseline"`
	State     string     `json:"state"`
	Live      bool       `json:"live"`
	Share     float64    `json:"share"`          // percent
	Step      string     `json:"step,omitempty"` // such as "step 1 of 2: 10% for 30s"
	Message   string     `json:"message,omitempty"`
	Started   time.Time  `json:"started"`
	Ended     *time.Time `json:"ended,omitempty"` // nil while live
	By        string     `json:"by,omitempty"`
	Run       int        `json:"run,omitempty"`
}

// RunInfo is one run of a recipe.
type RunInfo struct {
	Number  int        `json:"number"`
	File    string     `json:"file"`
	Args    []string   `json:"args"`
	Dir     string     `json:"dir,omitempty"`
	By      string     `json:"by"`
	State   string     `json:"state"` // RunRunning and so on
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"` // nil while it runs
	Error   string     `json:"error,omitempty"` // first line of what it failed with
}

// The states of a run.
const (
	RunRunning   = "running"
	RunFinished  = "finished"
	RunFailed    = "failed"
	RunCancelled = "cancelled"
)

// AppInfoOf returns a as a [State] shows it.
func AppInfoOf(a muru.App) AppInfo {
	info := AppInfo{
		Name: a.Name, URL: a.URL, Rollout: a.Rollout,
		Baseline: releaseName(a.Baseline), Candidate: releaseName(a.Candidate),
		Held: releaseNames(a.Held), Warm: releaseNames(a.Warm),
	}
	for _, arm := range a.Split.Arms {
		if info.Split == nil {
			info.Split = make(map[string]float64, len(a.Split.Arms))
		}
		info.Split[arm.Release.Name()] = arm.Share.Percent()
	}
	return info
}

// ReleaseInfoOf returns r as a [State] shows it.
func ReleaseInfoOf(r muru.Release) ReleaseInfo {
	source := r.Source
	if source == "" {
		source = r.Upstream
	}
	return ReleaseInfo{
		App: r.ID.App, Name: r.ID.Name(), State: r.State.String(), Share: r.Share.Percent(),
		Kind: r.Kind.String(), Source: source, Created: r.Created.UTC(), By: r.By, Message: r.Message,
	}
}

// RolloutInfoOf returns r as a [State] shows it.
func RolloutInfoOf(r muru.Rollout) RolloutInfo {
	info := RolloutInfo{
		Number: r.Number, App: r.Candidate.App, Candidate: r.Candidate.Name(), Baseline: releaseName(r.Baseline.Number),
		State: r.State.String(), Live: r.Live(), Share: r.Share.Percent(), Message: r.Message,
		Started: r.Started.UTC(), By: r.By, Run: r.Run,
	}
	if r.Step != nil {
		info.Step = r.Step.String()
	}
	if !r.Ended.IsZero() {
		ended := r.Ended.UTC()
		info.Ended = &ended
	}
	return info
}

// releaseName names release number n, "" for no release.
func releaseName(n int) string {
	if n == 0 {
		return ""
	}
	return muru.ReleaseID{Number: n}.Name()
}

func releaseNames(numbers []int) []string {
	var names []string
	for _, n := range numbers {
		names = append(names, releaseName(n))
	}
	return names
}
