// Package wire is the connection between the daemon and its Python workers:
// how a request reaches a thread of a worker, how the answer comes back, and
// the worker itself, a Python package embedded in the binary.
//
// One unix socket serves all workers. A worker opens one connection for each
// of its threads and one control connection, says hello on each, and after
// the daemon has gone tries again until it finds the next one. What it prints
// goes to a file, so nothing of it depends on the daemon.
//
//   - [Listener] takes connections and reads their [Hello]
//   - [Link] is a thread's connection: Send a request, Receive its answer,
//     one at a time; [Gather] reads a small body before a thread is taken
//   - [Control] is a worker's control connection: ready or failed, where its
//     threads are, exit
//   - [ThreadStack], [Dump]: where a thread is, also of a worker whose
//     interpreter is held by C code
//   - [Runtime], [Spec]: the embedded package on disk and how to start a
//     worker with it; [FindPython] and [Interpreter] find what runs it
//
// # Frames
//
// A frame is a header of 16 bytes, a head and a body. The header is, all
// little-endian, u32 length of the head, u32 length of the body, u32 id of
// the request, u16 flags and u16 number of fields. A head is text in latin-1
// joined by NUL: of a request the names and values of its WSGI environ, of an
// answer its status line and the names and values of its fields, of a hello
// what [Hello] has. Flags are in frame.go.
//
// A body of up to 64 KiB and known length travels with its request. Of a
// larger one the worker pulls part after part as the application reads, so
// what it does not read is never sent and nothing is left over when it
// answers early. An answer that fits goes out in one frame; one that is a
// stream in one frame for each part.
//
// A worker is not trusted to keep to this: application code can write to the
// descriptor. What breaks the rules is a [*ProtocolError].
//
// # Ownership
//
// The caller owns every connection it was handed and closes it; closing is
// what ends a blocked Send, Receive or Serve. Nothing here starts a goroutine
// that outlives the call, except the read of a client's body that blocks: it
// ends when the body is closed.
//
// Start reading at [Link.Send].
package wire
