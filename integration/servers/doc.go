// Package servers runs the brokers and object stores that the integration tests need: real
// ones as child processes ([StartKafka], [StartRabbitMQ], [StartVersitygw]) and embedded ones
// ([StartKfake], [StartGofakes3]).
//
// Every server listens on free ports of 127.0.0.1, keeps everything it writes in one
// temporary folder, and can be stopped, killed, paused and started again on the same port
// with the same data, so that tests can break it. A server that cannot start is an error,
// never a reason to skip.
//
// A package's tests share servers through a [Group] in TestMain; a test that needs one of
// its own starts it and hands it to [CloseAfter]. Real servers are children that the kernel
// kills when the test process dies, however it dies.
//
// To add a server, write a file like kafka.go: an options struct whose zero value works, a
// Start function that writes the configuration into a folder and hands the command line and
// the line of output that means "ready" to newProcess, and a struct that embeds *[Process]
// and says how clients reach it. What it needs from the system goes into install.sh, what
// it downloads into an Install function that cmd/download calls.
package servers
