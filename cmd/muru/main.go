package main

import (
	"os"
	_ "time/tzdata" // recipes name time zones on machines without a database of them
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
