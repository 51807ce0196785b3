package page

// alphabet is that of the command line's pictures: without x, which marks a reserved slot.
const alphabet = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// letters maps each shown gang to its number, so that the gang keeps its letter and its colour.
type letters map[string]int

// assign returns a copy of gangs with numbers: known gangs keep theirs, new gangs get the lowest free ones in order.
func (l *letters) assign(gangs []Gang) []Gang {
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

// letter returns the letters for number n: a, b, … Z, aa, ab, ….
func letter(n int) string {
	if n < len(alphabet) {
		return alphabet[n : n+1]
	}
	return letter(n/len(alphabet)-1) + letter(n%len(alphabet))
}
