package recipes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.starlark.net/syntax"
)

func TestEveryRecipeCanBeReadAndLoaded(t *testing.T) {
	files, err := filepath.Glob("*.star")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(source), "# "+name+": ") {
				t.Errorf("does not begin with a comment %q that says what it shows", "# "+name+": …")
			}
			if !strings.Contains(string(source), "\n#     muru run ") {
				t.Error("its header does not show the command line")
			}
			options := &syntax.FileOptions{Set: true}
			file, err := options.Parse(name, source, 0)
			if err != nil {
				t.Fatal(err)
			}
			var main *syntax.DefStmt
			for _, statement := range file.Stmts {
				switch statement := statement.(type) {
				case *syntax.DefStmt:
					checkDocstring(t, statement)
					if statement.Name.Name == "main" {
						main = statement
					}
				case *syntax.AssignStmt:
					checkCallsNothing(t, statement)
				case *syntax.LoadStmt:
				default:
					start, _ := statement.Span()
					t.Errorf("%s: a recipe acts only in main, or it could not be loaded", start)
				}
			}
			if main == nil {
				t.Fatal("has no main")
			}
			checkParameters(t, main)
		})
	}
}

func TestReadmeNamesEveryRecipe(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.star")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.Contains(string(readme), "["+name+"]("+name+")") {
			t.Errorf("recipes/README.md has no row for %s", name)
		}
	}
}

// docstring returns the text that opens the body of a function, or "".
func docstring(function *syntax.DefStmt) string {
	if statement, ok := function.Body[0].(*syntax.ExprStmt); ok {
		if literal, ok := statement.X.(*syntax.Literal); ok && literal.Token == syntax.STRING {
			return literal.Value.(string)
		}
	}
	return ""
}

func checkDocstring(t *testing.T, function *syntax.DefStmt) {
	t.Helper()
	if docstring(function) == "" {
		t.Errorf("%s: %s has no docstring", function.Def, function.Name.Name)
	}
}

// checkParameters wants each parameter of main explained: they are its command line.
func checkParameters(t *testing.T, main *syntax.DefStmt) {
	t.Helper()
	for _, parameter := range main.Params {
		name, _ := parameter.(*syntax.Ident)
		if withDefault, ok := parameter.(*syntax.BinaryExpr); ok {
			name, _ = withDefault.X.(*syntax.Ident)
		}
		if name == nil {
			t.Errorf("%s: a parameter of main is neither NAME nor NAME = DEFAULT", main.Def)
			continue
		}
		if !strings.Contains(docstring(main), "\n      "+name.Name+": ") {
			t.Errorf("%s: the docstring of main does not explain %s", name.NamePos, name.Name)
		}
	}
}

func checkCallsNothing(t *testing.T, statement syntax.Stmt) {
	t.Helper()
	syntax.Walk(statement, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok {
			t.Errorf("%s: a call at top level: the recipe could not be loaded", call.Lparen)
		}
		return true
	})
}
