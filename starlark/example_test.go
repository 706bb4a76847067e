package starlark_test

import (
	"context"
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"muru"
	script "muru/starlark"
)

// A host hands in its builtins and runs a recipe with a command line.
func Example() {
	deploy := starlark.NewBuiltin("deploy", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (_ starlark.Value, err error) {
		defer script.Recover(thread, b.Name(), &err)
		if err := script.CheckEffect(thread, b.Name()); err != nil {
			return nil, err
		}
		return nil, muru.Errorf(muru.KindNotFound, "deploy: %s: no such directory", args[1]).WithHint("make it first")
	})
	rt := script.New(script.Options{
		Predeclared: starlark.StringDict{"deploy": deploy},
		Limits:      script.DefaultLimits(),
	})
	file, err := rt.Parse("ship.star", []byte(`
def main(app, source = "releases/v1"):
    """Ships source."""
    deploy(app, source)
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Usage())
	_, err = file.Run(context.Background(), []string{"shop", "--source", "v2"})
	if e, ok := errors.AsType[*script.Error](err); ok {
		fmt.Println("muru: " + e.Text())
	}
	// Output:
	// usage: muru run ship.star APP [--source SOURCE]
	//
	// Ships source.
	//
	//   --source SOURCE  default: releases/v1
	// muru: ship.star:4:5: deploy: "v2": no such directory
	//   at ship.star:4:5 in main
	// hint: make it first
}
