package page

// alphabet is that of the pictures of the command line, where x marks a place that is reserved.
const alphabet = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// letters remembers which number stands for which gang, so that a gang keeps its letter and its
// colour as long as it is shown.
type letters map[string]int

// give numbers the gangs of a State: those that are known as they were, the others in their order
// with the lowest that are free. What it returns is a new list.
func (l *letters) give(gangs []Gang) []Gang {
	kept, taken := letters{}, map[int]bool{}
	for _, g := range gangs {
		if n, ok := (*l)[g.Name]; ok {
			kept[g.Name], taken[n] = n, true
		}
	}
	out, next := make([]Gang, len(gangs)), 0
	for i, g := range gangs {
		n, ok := kept[g.Name]
		if !ok {
			for taken[next] {
				next++
			}
			n, taken[next], kept[g.Name] = next, true, next
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
