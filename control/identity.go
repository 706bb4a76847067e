package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"muru"
)

// A peer is the process at the other end of a connection, as the system names
// it.
type peer struct {
	uid    int
	groups []int
}

// An identity is who a request is from. It is found with the first request of
// a connection, here and nowhere else: another way to prove who one is, and what one may do,
// starts in this file.
type identity struct {
	by  string // the user's name
	uid int
	err error // why this user may not ask anything
}

type identityKey struct{}

// identify is the server's ConnContext. It is called between two Accepts, so
// it asks nothing yet: a directory of users may be slow, and everybody else
// would wait.
func (s *Server) identify(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, identityKey{}, sync.OnceValue(func() *identity { return s.identityOf(conn) }))
}

func (s *Server) identityOf(conn net.Conn) *identity {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return &identity{err: fmt.Errorf("BUG: a connection that is not of a unix socket: %T", conn)}
	}
	p, err := peerOf(c)
	if err != nil {
		return &identity{err: muru.Errorf(muru.KindDenied, "the system does not say who asks: %w", err)}
	}
	id := &identity{by: s.nameOf(p.uid), uid: p.uid}
	if !admits(p, os.Geteuid(), s.group) {
		owner := userName(os.Geteuid())
		e := muru.Errorf(muru.KindDenied, "%s may not use this muru: it is %s's", id.by, owner).
			WithHint("ask %s, or have it served with --socket-group GROUP", owner)
		if s.group >= 0 {
			e = muru.Errorf(muru.KindDenied, "%s may not use this muru: it is %s's and group %s's", id.by, owner, groupName(s.group)).
				WithHint("join the group: usermod -aG %s %s", groupName(s.group), id.by)
		}
		id.err = e
	}
	return id
}

// nameOf is userName, asked once for each user that has a name.
func (s *Server) nameOf(uid int) string {
	if name, ok := s.names.Load(uid); ok {
		return name.(string)
	}
	name, known := s.options.lookupUser(uid)
	if known {
		s.names.Store(uid, name)
	}
	return name
}

// admits reports whether p may use a muru of owner whose socket is of group,
// -1 for none: root, the owner and the members may.
func admits(p peer, owner, group int) bool {
	return p.uid == 0 || p.uid == owner || group >= 0 && slices.Contains(p.groups, group)
}

// identityOf returns who a request is from.
func identityOf(ctx context.Context) *identity {
	if found, ok := ctx.Value(identityKey{}).(func() *identity); ok {
		return found()
	}
	return &identity{err: muru.Errorf(muru.KindDenied, "nobody knows who asks")}
}
