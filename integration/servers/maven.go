package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/watermill-envelope/envelope/integration/internal/cache"
)

// mavenJars puts the jars that a pom.xml depends on into the folder lib of the cached folder
// of that name, once, and returns the cached folder.
func mavenJars(ctx context.Context, name, pom string) (string, error) {
	return cache.Dir(ctx, name, func(ctx context.Context, dir string) error {
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, []byte(pom), 0o644); err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", file, "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "lib")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("mvn: %w\n%s", err, out)
		}
		return nil
	})
}
