package filestore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// What follows looks into the system calls of one goroutine, and decides about each: faults of
// disks and crashes at every step cannot be had otherwise, and the order of the calls is what
// keeps an object through a power cut. It is the kernel's seccomp, of a thread, so that nothing
// has to be built into the Store, and nothing else of the process is touched.

// A call is a system call that is about to be made.
type call struct {
	name string
	text string // with what: fsync <folder>
}

// calls are those that are looked into: which change a file system or make a change durable.
// Of openat only what creates, of write only what the runtime does not do for itself.
var calls = []struct {
	name   string
	number uint32
	arg    uint32 // of the condition, see op
	op     uint16 // 0: no condition
	value  uint32
}{
	{name: "mkdirat", number: syscall.SYS_MKDIRAT},
	{name: "create", number: syscall.SYS_OPENAT, arg: 2, op: syscall.BPF_JSET, value: syscall.O_CREAT},
	{name: "write", number: syscall.SYS_WRITE, arg: 2, op: syscall.BPF_JGE, value: 512},
	{name: "fchmod", number: syscall.SYS_FCHMOD},
	{name: "fchmodat", number: syscall.SYS_FCHMODAT},
	{name: "fchmodat", number: 452}, // fchmodat2 of newer kernels, on every architecture
	{name: "fsync", number: syscall.SYS_FSYNC},
	{name: "linkat", number: syscall.SYS_LINKAT},
	{name: "renameat", number: syscall.SYS_RENAMEAT},
	{name: "unlinkat", number: syscall.SYS_UNLINKAT},
	{name: "truncate", number: syscall.SYS_FTRUNCATE},
}

const (
	seccompAllow  = 0x7fff0000
	seccompErrno  = 0x00050000
	seccompNotify = 0x7fc00000

	notifyReceive = 0xc0502100
	notifySend    = 0xc0182101
	notifyGoOn    = 1

	endOfTrace = 1<<31 - 7 // a file descriptor that nobody has
)

// filter returns the program that does action for the calls of the given names, all if none.
func filter(action uint32, names ...string) []syscall.SockFilter {
	program := []syscall.SockFilter{{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 0}}
	for _, c := range calls {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		does := syscall.SockFilter{Code: syscall.BPF_RET | syscall.BPF_K, K: action}
		isCall := syscall.SockFilter{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: c.number}
		if c.op == 0 {
			isCall.Jf = 1
			program = append(program, isCall, does)
			continue
		}
		isCall.Jf = 4
		program = append(
			program, isCall,
			syscall.SockFilter{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 16 + 8*c.arg},
			syscall.SockFilter{Code: syscall.BPF_JMP | c.op | syscall.BPF_K, K: c.value, Jf: 1},
			does,
			syscall.SockFilter{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 0},
		)
	}
	return append(program, syscall.SockFilter{Code: syscall.BPF_RET | syscall.BPF_K, K: seccompAllow})
}

// onFilteredThread runs f on a thread of its own that has a filter, and returns when it is
// done. The thread ends with it.
func onFilteredThread(program []syscall.SockFilter, flags uintptr, f func(listener uintptr)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever
		const prSetNoNewPrivs = 38
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
			panic("prctl: " + errno.Error())
		}
		prog := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		listener, _, errno := syscall.RawSyscall(sysSeccomp, 1, flags, uintptr(unsafe.Pointer(&prog)))
		if errno != 0 {
			panic("these tests need seccomp with notifications (Linux 5.5): " + errno.Error())
		}
		f(listener)
	}()
	<-done
}

// failing runs f, whose calls of the given names fail with errno.
func failing(errno syscall.Errno, f func(), names ...string) {
	if !slices.Contains(names, "write") { // which package testing uses too
		onFilteredThread(filter(seccompErrno|uint32(errno), names...), 0, func(uintptr) { f() })
		return
	}
	traced(f, func(_ int, c call) syscall.Errno {
		if slices.Contains(names, c.name) {
			return errno
		}
		return 0
	}, names...)
}

// traced runs f and asks decide about each of its calls, of the given names or all, which has
// a number from 0: it fails with the error, or is made if that is 0.
func traced(f func(), decide func(n int, c call) syscall.Errno, names ...string) {
	const newListener = 8
	if len(names) > 0 {
		names = append(slices.Clone(names), "unlinkat") // for the end
	}
	onFilteredThread(filter(seccompNotify, names...), newListener, func(listener uintptr) {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			watch(listener, decide)
		}()
		f()
		// The last one tells the watcher to end.
		_, _, _ = syscall.Syscall(syscall.SYS_UNLINKAT, endOfTrace, 0, 0)
		<-watched
		syscall.Close(int(listener))
	})
}

type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

func watch(listener uintptr, decide func(n int, c call) syscall.Errno) {
	var decided *syscall.Errno // about a call that a signal interrupted, and that comes again
	for n := 0; ; {
		var note notification
		// A signal to the thread that calls, which Go's scheduler sends, takes the call back: it
		// is then gone (ENOENT), and made again.
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, listener, notifyReceive, uintptr(unsafe.Pointer(&note))); errno == syscall.EINTR || errno == syscall.ENOENT {
			continue
		} else if errno != 0 {
			panic("receiving a notification: " + errno.Error())
		}
		answer := response{id: note.id, flags: notifyGoOn}
		last := note.args[0] == endOfTrace
		// Package testing writes down which files a test opens.
		if c := describe(note); !last && !strings.HasSuffix(c.text, "testlog.txt") {
			if decided == nil {
				errno := decide(n, c)
				decided = &errno
				n++
			}
			if *decided != 0 {
				answer.err, answer.flags = -int32(*decided), 0
			}
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, listener, notifySend, uintptr(unsafe.Pointer(&answer))); errno == syscall.ENOENT {
			continue
		} else if errno != 0 {
			panic("answering a notification: " + errno.Error())
		}
		decided = nil
		if last {
			return
		}
	}
}

// describe says what a call is about, while it waits.
func describe(note notification) call {
	var c call
	for _, known := range calls {
		if known.number == uint32(note.number) {
			c.name = known.name
		}
	}
	a := note.args
	switch c.name {
	case "fsync", "write", "fchmod", "truncate":
		c.text = c.name + " " + fileOf(a[0])
	case "linkat", "renameat":
		c.text = c.name + " " + pathOf(a[0], a[1]) + " " + pathOf(a[2], a[3])
	default:
		c.text = c.name + " " + pathOf(a[0], a[1])
	}
	return c
}

func pathOf(folder, name uint64) string { return filepath.Join(fileOf(folder), stringAt(name)) }

func fileOf(fd uint64) string {
	if fd := int32(fd); fd == -100 { // AT_FDCWD
		return ""
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int32(fd)))
	if err != nil {
		return "?"
	}
	return name
}

func stringAt(address uint64) string {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return "?"
	}
	defer memory.Close()
	buf := make([]byte, 300)
	n, _ := memory.ReadAt(buf, int64(address))
	text, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(text)
}

// record runs f and returns its calls, but for those that change permissions.
func record(f func()) []string {
	var texts []string
	traced(f, func(_ int, c call) syscall.Errno {
		texts = append(texts, c.text)
		return 0
	}, "mkdirat", "create", "write", "fsync", "linkat", "renameat", "unlinkat", "truncate")
	return texts
}
