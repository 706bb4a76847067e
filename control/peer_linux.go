package control

import (
	"errors"
	"net"
	"os/user"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks the system who connected. The answer was fixed then: a process
// cannot change it later.
func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var p peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		p.uid, p.groups = int(cred.Uid), []int{int(cred.Gid)}
		more, err := peerGroups(fd)
		if err != nil {
			more = listedGroups(p.uid)
		}
		p.groups = append(p.groups, more...)
	})
	return p, errors.Join(err, failed)
}

// peerGroups returns the supplementary groups that the process had. They may
// differ from those in /etc/group: a container's user has no line there.
func peerGroups(fd uintptr) ([]int, error) {
	gids := make([]uint32, 64)
	for {
		size := uint32(len(gids) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&gids[0])), uintptr(unsafe.Pointer(&size)), 0)
		if errno == unix.ERANGE && len(gids) < int(size/4) {
			gids = make([]uint32, size/4)
			continue
		}
		if errno != 0 {
			return nil, errno
		}
		groups := make([]int, 0, size/4)
		for _, gid := range gids[:size/4] {
			groups = append(groups, int(gid))
		}
		return groups, nil
	}
}

// listedGroups is for kernels before 4.13, which do not know SO_PEERGROUPS.
func listedGroups(uid int) []int {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var groups []int
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			groups = append(groups, gid)
		}
	}
	return groups
}
