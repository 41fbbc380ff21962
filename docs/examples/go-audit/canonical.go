package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

type object = map[string]any

// parseObject reads strict JSON of one object: UTF-8, no field twice, nothing behind it.
func parseObject(raw []byte) (object, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	value, err := parseValue(decoder)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the value")
	}
	fields, ok := value.(object)
	if !ok {
		return nil, errors.New("not an object")
	}
	return fields, nil
}

func parseValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		fields := object{}
		for decoder.More() {
			name, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(decoder)
			if err != nil {
				return nil, err
			}
			if _, twice := fields[name.(string)]; twice {
				return nil, errors.New("an object names a field twice")
			}
			fields[name.(string)] = value
		}
		_, err := decoder.Token()
		return fields, err
	case json.Delim('['):
		members := []any{}
		for decoder.More() {
			value, err := parseValue(decoder)
			if err != nil {
				return nil, err
			}
			members = append(members, value)
		}
		_, err := decoder.Token()
		return members, err
	}
	return token, nil
}

// canonicalize writes the RFC 8785 form.
func canonicalize(value any) ([]byte, error) {
	var out bytes.Buffer
	err := writeValue(&out, value)
	return out.Bytes(), err
}

func writeValue(out *bytes.Buffer, value any) error {
	switch typed := value.(type) {
	case object:
		names := make([]string, 0, len(typed))
		for name := range typed {
			names = append(names, name)
		}
		sort.Slice(names, func(i, j int) bool { return isBefore(names[i], names[j]) })
		out.WriteByte('{')
		for at, name := range names {
			if at > 0 {
				out.WriteByte(',')
			}
			writeString(out, name)
			out.WriteByte(':')
			if err := writeValue(out, typed[name]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for at, member := range typed {
			if at > 0 {
				out.WriteByte(',')
			}
			if err := writeValue(out, member); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case string:
		writeString(out, typed)
	case json.Number:
		number, err := strconv.ParseFloat(typed.String(), 64)
		if err != nil || math.IsInf(number, 0) {
			return errors.New("a number has no canonical form")
		}
		out.WriteString(writeNumber(number))
	case bool:
		out.WriteString(strconv.FormatBool(typed))
	default:
		out.WriteString("null")
	}
	return nil
}

// isBefore orders names by their UTF-16 code units.
func isBefore(one, other string) bool {
	first, second := utf16.Encode([]rune(one)), utf16.Encode([]rune(other))
	for at := 0; at < len(first) && at < len(second); at++ {
		if first[at] != second[at] {
			return first[at] < second[at]
		}
	}
	return len(first) < len(second)
}

// writeNumber is ECMAScript's Number::toString.
func writeNumber(number float64) string {
	if number == 0 {
		return "0"
	}
	if size := math.Abs(number); size >= 1e-6 && size < 1e21 {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(number, 'e', -1, 64), "e")
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

func writeString(out *bytes.Buffer, text string) {
	const hex = "0123456789abcdef"
	short := map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	out.WriteByte('"')
	for at := 0; at < len(text); at++ {
		char := text[at]
		if escaped, ok := short[char]; ok {
			out.WriteString(escaped)
		} else if char < 0x20 {
			out.WriteString(`\u00` + string(hex[char>>4]) + string(hex[char&15]))
		} else {
			out.WriteByte(char)
		}
	}
	out.WriteByte('"')
}
