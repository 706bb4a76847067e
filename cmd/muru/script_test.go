package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	// These tests wait more than they work: for holds, drains and processes.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"muru": main, "browse": browse, "muru-watching": watchingMain})
}

// TestScripts runs the binary as its users do.
func TestScripts(t *testing.T) {
	t.Parallel()
	recipes, err := filepath.Abs("../../recipes")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"visitors": visitorsOf},
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("RECIPES", recipes)
			env.Setenv("APPS", filepath.Join(filepath.Dir(recipes), "cmd/muru/testdata/apps"))
			env.Setenv("TMPDIR", "/tmp") // sockets need short paths
			return nil
		},
	})
}
