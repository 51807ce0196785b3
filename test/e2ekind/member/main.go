// Member is one process of a job that runs as a gang. Rank 0 listens; the others dial it by its stable name. No process
// starts before all are connected: rank 0 tells them then, and each prints when it started. On SIGTERM it takes its
// grace, as a worker does that writes a checkpoint.
//
//	member -rank 0 -members 4 -rank0 train-0.train:7000
package main

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var (
	rank    = flag.Int("rank", 0, "which member this is")
	members = flag.Int("members", 1, "how many there are")
	rank0   = flag.String("rank0", "", "where rank 0 is found, host:port")
	leaves  = flag.Duration("leaves", 0, "how long it takes to end after SIGTERM")
)

func main() {
	flag.Parse()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	say("up, rank %d of %d", *rank, *members)
	go func() {
		if err := together(); err != nil {
			say("failed: %v", err)
			os.Exit(1)
		}
		say("started")
	}()
	<-terminated
	say("SIGTERM, leaving in %s", *leaves)
	<-time.After(*leaves)
	say("left")
}

func say(format string, args ...any) {
	fmt.Println(time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), fmt.Sprintf(format, args...))
}

// together returns when all members are connected.
func together() error {
	switch {
	case *members == 1:
		return nil
	case *rank == 0:
		return gather()
	}
	return join()
}

// gather waits for a connection of every other member, then tells all.
func gather() error {
	_, port, err := net.SplitHostPort(*rank0)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	joined := map[string]net.Conn{}
	for len(joined) < *members-1 {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if who, err := bufio.NewReader(c).ReadString('\n'); err == nil {
			joined[who] = c
			say("joined: %d of %d", len(joined)+1, *members)
		}
	}
	for _, c := range joined {
		if _, err := fmt.Fprintln(c, "start"); err != nil {
			return err
		}
	}
	return nil
}

// join dials rank 0 until it listens, and waits for its word.
func join() error {
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		c, err := net.DialTimeout("tcp", *rank0, time.Second)
		if err != nil {
			continue // the name is not known yet, or rank 0 does not listen
		}
		if _, err := fmt.Fprintln(c, *rank); err != nil {
			continue
		}
		say("connected to %s", *rank0)
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			return err
		}
		return nil
	}
}
