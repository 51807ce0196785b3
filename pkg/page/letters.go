package page

// alphabet is that of the command line's pictures, where x marks a reserved slot.
const alphabet = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// letters remembers the number of each gang, so that a gang keeps its letter and its colour as long as it is shown.
type letters map[string]int

// give returns a copy of gangs with numbers: known gangs keep theirs, new gangs get the lowest free ones in order.
func (l *letters) give(gangs []Gang) []Gang {
	kept, used := letters{}, map[int]bool{}
	for _, g := range gangs {
		if n, ok := (*l)[g.Name]; ok {
			kept[g.Name], used[n] = n, true
		}
	}
	out, next := make([]Gang, len(gangs)), 0
	for i, g := range gangs {
		n, ok := kept[g.Name]
		if !ok {
			for used[next] {
				next++
			}
			n = next
			used[next] = true
			kept[g.Name] = next
		}
		g.Number, g.Letter = n, letter(n)
		out[i] = g
	}
	*l = kept
	return out
}

// letter is a, b, … Z, aa, ab, ….
func letter(n int) string {
	if n < len(alphabet) {
		return alphabet[n : n+1]
	}
	return letter(n/len(alphabet)-1) + letter(n%len(alphabet))
}
