package simulate
import ("testing";"os";"context";"fmt";"time")
func TestProf(t *testing.T) {
	load := func(fs ...string) *Set { s := &Set{}; for _, f := range fs { d, _ := os.ReadFile(f); if err := s.Add(f, d); err != nil { t.Fatal(err) } }; return s }
	t0 := time.Now()
	a := load("/work/main/test/fixtures/clusternetworktopology.yaml", "/tmp/big/dump."+os.Getenv("EXT"))
	fmt.Println("load", time.Since(t0)); t0 = time.Now()
	_, err := Run(context.Background(), Options{}, a, load("/tmp/big/"+os.Getenv("THEN")))
	fmt.Println(err, time.Since(t0))
}
