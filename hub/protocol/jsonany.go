package protocol

// jsonAny decodes raw into nil, bool, string, int64 (uint64 beyond), float64,
// []any or map[string]any. Numbers written as integers become integers, so
// that they are written as integers again.
func jsonAny(raw []byte) (any, error) {
	if !validJSON(raw) {
		return nil, badValue("a value is no json")
	}
	v, _, err := anyFromJSON(raw, skipSpace(raw, 0))
	return v, err
}

// anyFromJSON decodes the scanned value at b[i] and returns the index behind it.
func anyFromJSON(b []byte, i int) (any, int, error) {
	switch b[i] {
	case '"':
		end, _ := scanString(b, i)
		text, err := jsonText(b[i:end], "")
		return string(text), end, err
	case '{':
		return mapFromJSON(b, i)
	case '[':
		return sliceFromJSON(b, i)
	case 't':
		return true, i + len("true"), nil
	case 'f':
		return false, i + len("false"), nil
	case 'n':
		return nil, i + len("null"), nil
	}
	end := scanNumber(b, i)
	n, err := parseNumber(b[i:end])
	return n.value(), end, err
}

func sliceFromJSON(b []byte, i int) (any, int, error) {
	s := []any{}
	i = skipSpace(b, i+1)
	if b[i] == ']' {
		return s, i + 1, nil
	}
	for more := true; more; {
		e, end, err := anyFromJSON(b, i)
		if err != nil {
			return nil, 0, err
		}
		s = append(s, e)
		i, more = scanNext(b, end, ']')
	}
	return s, i, nil
}

func mapFromJSON(b []byte, i int) (any, int, error) {
	m := map[string]any{}
	i = skipSpace(b, i+1)
	if b[i] == '}' {
		return m, i + 1, nil
	}
	for more := true; more; {
		end, _ := scanString(b, i)
		name, err := jsonText(b[i:end], "")
		if err != nil {
			return nil, 0, err
		}
		e, end, err := anyFromJSON(b, scanColon(b, end))
		if err != nil {
			return nil, 0, err
		}
		m[string(name)] = e
		i, more = scanNext(b, end, '}')
	}
	return m, i, nil
}

// splitJSONArray splits the scanned array raw; nil and true for null.
func splitJSONArray(raw []byte) (elements [][]byte, ok bool) {
	i := skipSpace(raw, 0)
	if raw[i] == 'n' {
		return nil, true
	}
	if raw[i] != '[' {
		return nil, false
	}
	elements = [][]byte{}
	i = skipSpace(raw, i+1)
	for more := raw[i] != ']'; more; {
		end := scanValue(raw, i, 1)
		elements = append(elements, raw[i:end:end])
		i, more = scanNext(raw, end, ']')
	}
	return elements, true
}
