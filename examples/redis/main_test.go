package main

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/watermill-envelope/envelope/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func Test(t *testing.T) { exampletest.Run(t, "-redis", miniredis.RunT(t).Addr()) }
