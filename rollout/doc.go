// Package rollout is the engine: it moves apps between releases and decides,
// on what the edge saw, whether a candidate deserves all the traffic. It knows
// no HTTP, no process and no Starlark.
package rollout
