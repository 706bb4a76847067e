package main

import (
	"fmt"
	"regexp"
	"strings"

	"go.starlark.net/starlark"

	"muru"
)

// A literal turns a word of the command line into Starlark source. The text
// of its errors says what is wrong with the word; the caller names the
// parameter. What only the call itself can judge is left to it.
type literal func(word string) (string, error)

// literalFor returns the literal for a parameter whose type the reference
// names so. What is not special is a text.
func literalFor(typ string) literal {
	typ = strings.TrimSuffix(typ, " or None")
	if element, ok := strings.CutPrefix(typ, "list of "); ok {
		if element == "share or (share, duration)" {
			return stepLiteral
		}
		return literalFor(element)
	}
	switch typ {
	case "int", "float":
		return numberLiteral
	case "duration":
		return durationLiteral
	case "rollout", "app, release or rollout":
		return numberOrText
	case "percentage, int or duration", "share", "size":
		return numberOrText
	}
	return textLiteral
}

// elementFor returns the literal for the values of a dict.
func elementFor(typ string) literal {
	switch strings.TrimPrefix(typ, "dict of ") {
	case "int", "share by release":
		return numberOrText
	case "duration or None":
		return offLiteral
	}
	return textLiteral
}

func textLiteral(word string) (string, error) { return quote(word), nil }

// quote writes a text as Starlark does.
func quote(text string) string { return starlark.String(text).String() }

var (
	wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
	plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?$`)
)

func numberLiteral(word string) (string, error) {
	if !plainNumber.MatchString(word) {
		return "", muru.Errorf(muru.KindUsage, "%q is not a number", word)
	}
	return word, nil
}

// numberOrText is a number where the word is one: 10 is 10, and 0.5% is
// "0.5%".
func numberOrText(word string) (string, error) {
	if plainNumber.MatchString(word) {
		return word, nil
	}
	return quote(word), nil
}

func durationLiteral(word string) (string, error) {
	if _, err := muru.ParseDuration(word); err != nil {
		return "", err
	}
	return quote(word), nil
}

// offLiteral is a duration, or off.
func offLiteral(word string) (string, error) {
	if word == "off" {
		return "None", nil
	}
	return durationLiteral(word)
}

// stepLiteral is SHARE or SHARE:HOLD.
func stepLiteral(word string) (string, error) {
	word, hold, timed := strings.Cut(word, ":")
	share, err := numberOrText(strings.TrimSpace(word))
	if err != nil || !timed {
		return share, err
	}
	duration, err := durationLiteral(strings.TrimSpace(hold))
	return fmt.Sprintf("(%s, %s)", share, duration), err
}

// listLiteral writes the elements of a list.
func listLiteral(elements []string) string { return "[" + strings.Join(elements, ", ") + "]" }

// textList writes a list of texts.
func textList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return listLiteral(quoted)
}

// pairLiteral is KEY=VALUE as an item of a dict.
func pairLiteral(word string, value literal) (string, error) {
	key, text, ok := strings.Cut(word, "=")
	if !ok || key == "" {
		return "", muru.Errorf(muru.KindUsage, "%q is not KEY=VALUE", word)
	}
	v, err := value(text)
	if err != nil {
		return "", muru.Errorf(muru.KindUsage, "%s: %w", key, err).WithHint("%s", hintOf(err))
	}
	return quote(key) + ": " + v, nil
}
