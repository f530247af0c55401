module github.com/watermill-envelope/envelope/tools/vulncheck

go 1.26.0

// The Go vulnerability database, as data: nothing imports it (so go mod tidy would drop it),
// and this command reads the files of the version that stands here.
require golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018
