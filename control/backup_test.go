package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muru"
	"muru/control"
	"muru/control/controltest"
)

func TestGCReportCrossesTheSocketAlsoWhenItIsEmpty(t *testing.T) {
	for _, want := range []control.GCReport{
		{Releases: []string{"shop@r1", "shop@r2"}, Rollouts: []int{3}, Events: 40},
		{Releases: []string{}, Rollouts: []int{}},
	} {
		w := serve(t, &controltest.Muru{OnGC: func(context.Context) (control.GCReport, error) { return want, nil }})
		got, err := w.GC(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("wanted (-) and got (+): %s", diff)
		}
		w.server.RefuseChanges()
		if _, err := w.GC(deadline(t)); !errors.Is(err, control.ErrStopping) {
			t.Errorf("while it stops: %v", err)
		}
	}
}

func TestBackupIsWholeOrAnError(t *testing.T) {
	state := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	for name, c := range map[string]struct {
		write  func(w io.Writer) error
		failed func(err error) bool
	}{
		"all of it": {
			func(w io.Writer) error { _, err := w.Write(state); return err },
			func(err error) bool { return err == nil },
		},
		"none": {
			func(io.Writer) error { return muru.Errorf(muru.KindRefused, "this muru has no state file") },
			func(err error) bool {
				return control.KindOf(err) == muru.KindRefused && err.Error() == "this muru has no state file"
			},
		},
		"a part": {
			func(w io.Writer) error { _, _ = w.Write(state[:1<<20]); return errors.New("the disk is gone") },
			func(err error) bool { return errors.Is(err, control.ErrDaemonGone) },
		},
		"a part and a bug": {
			func(w io.Writer) error { _, _ = w.Write(state[:1<<20]); panic("at the disco") },
			func(err error) bool { return errors.Is(err, control.ErrDaemonGone) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, &controltest.Muru{OnBackup: func(_ context.Context, out io.Writer) error { return c.write(out) }})
			var got bytes.Buffer
			err := w.Backup(deadline(t), &got)
			if !c.failed(err) {
				t.Errorf("the error is %v", err)
			}
			if err == nil && !bytes.Equal(got.Bytes(), state) {
				t.Errorf("%d bytes of %d are right", got.Len(), len(state))
			}
		})
	}
}

func TestBackupSaysWhatIsWrongWithTheFileItself(t *testing.T) {
	w := serve(t, &controltest.Muru{OnBackup: func(_ context.Context, out io.Writer) error {
		_, err := io.Copy(out, strings.NewReader("state"))
		return err
	}})
	full := errors.New("no space left")
	if err := w.Backup(deadline(t), failing{full}); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
