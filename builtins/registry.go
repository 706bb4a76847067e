package builtins

import "slices"

// Specs returns every builtin in the order of the reference.
func Specs() []*Spec { return slices.Clone(all()) }

// SpecNamed returns a builtin by name, nil if there is none.
func SpecNamed(name string) *Spec {
	for _, s := range all() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Names returns the names of all builtins, for completion and hints.
func Names() []string {
	var names []string
	for _, s := range all() {
		names = append(names, s.Name)
	}
	return names
}

// all is a function because help refers to the list that it is in.
func all() []*Spec {
	return []*Spec{
		appSpec, listenSpec, deploySpec, splitSpec, promoteSpec, rollbackSpec, stopSpec,
		gateSpec, canarySpec, retrySpec, observeSpec, pauseSpec, resumeSpec, abortSpec, waitSpec,
		statusSpec, releasesSpec, rolloutsSpec, whySpec, eventsSpec, logsSpec, stacksSpec, workersSpec, probeSpec,
		trafficSpec, httpSpec, shSpec, readSpec, globSpec, writeSpec, secretSpec,
		nowSpec, durationSpec, sleepSpec, hereSpec, parallelSpec, attemptSpec, failSpec, printSpec, helpSpec,
	}
}
