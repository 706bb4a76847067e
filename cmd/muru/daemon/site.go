package daemon

import (
	"context"
	"net/netip"
	"slices"

	"muru"
	"muru/builtins"
	"muru/edge"
)

// siteRecipe is the site's file.
func (o ServeOptions) siteRecipe() Recipe { return Recipe{Path: o.Site, Dir: o.Dir} }

// runSite runs the site's file, if there is one, and returns the addresses it
// wants to listen on.
func (s *server) runSite(ctx context.Context, terminal builtins.Terminal) (addresses []string, err error) {
	if s.o.Site == "" {
		return nil, nil
	}
	s.tellSystemd("STATUS=running " + s.o.Site)
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
	if err := NewRunner(o).RunRecipe(ctx, s.o.siteRecipe(), terminal); err != nil {
		return nil, err
	}
	s.edge.Trust(trusted)
	return addresses, nil
}

// checkFirst refuses what would be refused after what served before has been
// started, which takes its time. Between now and then somebody may still take
// an address; then it is refused then.
func (s *server) checkFirst(ctx context.Context) error {
	if err := s.checkControl(); err != nil {
		return err
	}
	if s.o.Site != "" {
		return nil // only the file knows the addresses
	}
	for _, address := range s.o.Listen {
		if err := edge.CanListen(ctx, address); err != nil {
			return err
		}
	}
	return nil
}
