package host

func runHelper(string) {}
