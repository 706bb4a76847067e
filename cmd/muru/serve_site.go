package main

import (
	"context"
	"net/netip"
	"slices"

	"muru"
	"muru/builtins"
	"muru/edge"
)

// checkSite reads and checks the site's file, if there is one, before anything
// is started.
func checkSite(site string) error {
	if site == "" {
		return nil
	}
	rec, err := siteRecipe(site)
	if err != nil {
		return err
	}
	_, err = newRunner(runnerOptions{}).check(rec)
	return err
}

func siteRecipe(site string) (recipe, error) {
	dir, err := workingDir()
	return recipe{path: site, dir: dir, by: currentUser()}, err
}

// runSite runs the site's file, if there is one, and returns the addresses it
// wants to listen on.
func (s *server) runSite(ctx context.Context, terminal builtins.Terminal, site string) (addresses []string, err error) {
	if site == "" {
		return nil, nil
	}
	s.tellSystemd("STATUS=running " + site)
	var trusted []netip.Prefix
	o := s.runnerOptions()
	o.Listen = func(_ context.Context, l builtins.Listener) error {
		if slices.Contains(addresses, l.Address) {
			return muru.Errorf(muru.KindRefused, "%s is declared already", l.Address)
		}
		addresses = append(addresses, l.Address)
		trusted = append(trusted, l.TrustedProxies...)
		return nil
	}
	rec, err := siteRecipe(site)
	if err != nil {
		return nil, err
	}
	r := newRunner(o)
	if err := r.run(ctx, rec, r.begin(rec), terminal, nil); err != nil {
		return nil, err
	}
	s.edge.Trust(trusted)
	return addresses, nil
}

// checkFirst refuses what would be refused after what served before has been
// started, which takes its time. Between now and then somebody may still take
// an address; then it is refused then.
func (s *server) checkFirst(ctx context.Context, site string) error {
	if err := s.checkControl(); err != nil {
		return err
	}
	if site != "" {
		return nil // only the file knows the addresses
	}
	trial := edge.New(edge.Options{})
	for _, address := range s.flags.listen {
		if _, err := trial.Listen(ctx, address); err != nil {
			_ = trial.Close(ctx) // what matters is why it cannot listen
			return err
		}
	}
	return trial.Close(ctx)
}
