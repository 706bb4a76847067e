package control

import (
	"net/http"
	"strconv"

	"muru"
)

// The API's version, which client and server tell each other. It goes up when
// one of them could misread the other; a server takes what a client of
// apiOldest asks.
const (
	apiVersion = 1
	apiOldest  = 1
)

// The headers of the handshake, in requests and answers. A request without
// them is taken as it is: it is somebody's curl.
const (
	headerVersion = "Muru-Version" // the program's, for people
	headerAPI     = "Muru-Api"     // the API's, a number
)

func setVersion(h http.Header, program string) {
	h.Set(headerVersion, program)
	h.Set(headerAPI, strconv.Itoa(apiVersion))
}

// checkVersion refuses a client that is too new or too old for this server.
func checkVersion(h http.Header, program string) error {
	text := h.Get(headerAPI)
	if text == "" {
		return nil
	}
	api, err := strconv.Atoi(text)
	if err != nil {
		return muru.Errorf(muru.KindUsage, "%s: %.20q is not a number", headerAPI, text)
	}
	return compareAPI(api, h.Get(headerVersion), program)
}

// compareAPI compares what a client speaks with what this server speaks.
func compareAPI(api int, client, server string) error {
	var e *muru.Error
	switch {
	case api > apiVersion:
		e = muru.Errorf(muru.KindRefused, "this muru (%.40s) is newer than the one that serves (%s)", client, server).
			WithHint("start the one that serves again: systemctl restart muru, or muru serve")
	case api < apiOldest:
		e = muru.Errorf(muru.KindRefused, "this muru (%.40s) is too old for the one that serves (%s)", client, server).
			WithHint("install the newer one here too")
	default:
		return nil
	}
	e.Err = ErrOtherVersion
	return e
}
