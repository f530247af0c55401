package bustest

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A walker goes through a type as package encoding/json does.
type walker struct {
	traps []Trap
	seen  map[reflect.Type]bool // the structs that were gone through
}

// add adds a trap, once.
func (w *walker) add(kind Kind, path, why string) {
	for _, t := range w.traps {
		if t.Kind == kind && t.Path == path {
			return
		}
	}
	w.traps = append(w.traps, Trap{kind, path, why})
}

// typ goes through the type of the value at path.
func (w *walker) typ(path string, t reflect.Type) {
	if t == reflect.TypeFor[time.Duration]() {
		w.add(Duration, path, "nanoseconds in Go, an object of secs and nanos in Rust")
		return
	}
	if ownForm(t) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if f := t.Elem().Kind(); f != reflect.Float32 && f != reflect.Float64 {
			w.typ(path, t.Elem())
		}
	case reflect.Interface:
		w.add(Interface, path, "numbers in it are decoded as float64; json.RawMessage keeps what came")
	case reflect.Float32, reflect.Float64:
		w.add(Float, path, "Rust writes null for NaN and infinities, which is decoded as 0; a pointer keeps them apart")
	case reflect.Slice:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && !ownForm(e) {
			w.add(Bytes, path, "base64 in Go, an array of numbers in Rust")
			return
		}
		w.typ(path+"[]", t.Elem())
	case reflect.Array, reflect.Map:
		w.typ(path+"[]", t.Elem())
	case reflect.Struct:
		w.structure(path, t)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		w.add(Unencodable, path, t.Kind().String()+" has no JSON")
	}
}

// ownForm reports whether t writes or reads its JSON itself.
func ownForm(t reflect.Type) bool {
	for _, i := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	} {
		if t.Implements(i) || t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// structure goes through the fields of the object at path.
func (w *walker) structure(path string, t reflect.Type) {
	if w.seen[t] {
		return
	}
	if w.seen == nil {
		w.seen = make(map[reflect.Type]bool)
	}
	w.seen[t] = true
	var names []string
	w.fields(path, t, &names)
	if len(names) == 0 {
		w.add(Empty, path, "{} is read into struct T {} of Rust, not into struct T;")
	}
}

// fields goes through the fields of t, whose names join those of the object at path.
func (w *walker) fields(path string, t reflect.Type, names *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		at := join(path, f.Name)
		if s := structOf(f.Type); f.Anonymous && name == "" && s != nil {
			if s.NumField() > 0 {
				w.add(Embedded, at, "its fields are members of the outer object: #[serde(flatten)] in Rust")
			}
			w.fields(path, s, names)
		} else if f.IsExported() {
			w.member(at, f, name, options, names)
		}
		if f.Tag.Get("bustest") == "ok" {
			// Of the field itself; the type in it may be that of others as well.
			w.traps = slices.DeleteFunc(w.traps, func(t Trap) bool { return strings.TrimRight(t.Path, "[]") == at })
		}
	}
}

// member checks one member of an object.
func (w *walker) member(at string, f reflect.StructField, name, options string, names *[]string) {
	if name == "" {
		name = f.Name
		w.add(Untagged, at, "it is written as "+name)
	}
	for _, other := range *names {
		switch {
		case other == name:
			w.add(Hidden, at, "another field is called "+name)
		case strings.EqualFold(other, name):
			w.add(Folded, at, name+" and "+other+" differ only in case")
		}
	}
	*names = append(*names, name)
	omitted := false
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			omitted = true
		case "string":
			w.add(Quoted, at, "a number or a boolean is written as text")
		}
	}
	switch kind := f.Type.Kind(); {
	case omitted && kind != reflect.Pointer:
		w.add(Omitted, at, "left out when it is empty: an Option or #[serde(default)] in Rust")
	case (kind == reflect.Slice || kind == reflect.Map) && !omitted && !ownForm(f.Type):
		w.add(Null, at, "null when it is nil, which Rust refuses")
	}
	w.typ(at, f.Type)
}

// structOf returns the struct that an embedded field of this type has the fields of.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || ownForm(t) {
		return nil
	}
	return t
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
