package filestore

import "os"

// syncFolder closes a folder. It takes the results of Open. Windows synchronises files only.
func syncFolder(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
