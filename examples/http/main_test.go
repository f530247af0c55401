package main

import (
	"testing"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) { exampletest.Run(t, "-listen", "127.0.0.1:0") }
