// Reads images (28x28 float32 each) from standard input and prints ten scores for each, using the compiled LeNet. Go and a C compiler
// are all that is needed:
//
//	polyreme compile examples/lenet.py:LeNet -o lenet.a
//	CGO_CFLAGS="-I$PWD" CGO_LDFLAGS="$PWD/lenet.a -lm" go build -o lenet examples/lenet.go
//	./lenet < images.f32
package main

/*
#include <stdlib.h>
#include "lenet.h"

// Go may not keep pointers to its own memory in arrays that it gives to C, so that the arrays are made here.
static int32_t run(lenet_model *model, const float *images, int64_t count, float *scores) {
  const int64_t shape[4] = {count, 1, 28, 28};
  const void *inputs[] = {images};
  const int64_t *shapes[] = {shape};
  void *outputs[] = {scores};
  return lenet_run(model, inputs, shapes, outputs);
}
*/
import "C"

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"unsafe"
)

const (
	pixels  = 28 * 28
	classes = 10
)

// LeNet is the compiled model. Several goroutines may run it at the same time; Close ends it.
type LeNet struct{ model *C.lenet_model }

// New makes a model that runs on so many threads, 0 for one per processor.
func New(threads int) (*LeNet, error) {
	var message *C.char
	model := C.lenet_create(C.int32_t(threads), &message)
	if model == nil {
		return nil, errors.New(C.GoString(message))
	}
	return &LeNet{model}, nil
}

// Close ends the model and its threads. No run may be under way.
func (net *LeNet) Close() {
	C.lenet_destroy(net.model)
	net.model = nil
}

// Run gives the scores of images, which stand one after another.
func (net *LeNet) Run(images []float32) ([][classes]float32, error) {
	count := len(images) / pixels
	if count*pixels != len(images) {
		return nil, fmt.Errorf("expected images of %d pixels but got %d numbers", pixels, len(images))
	}
	if count == 0 {
		return nil, nil
	}
	scores := make([][classes]float32, count)
	// The text of an error belongs to the thread that ran.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	code := C.run(net.model, (*C.float)(unsafe.Pointer(&images[0])), C.int64_t(count), (*C.float)(unsafe.Pointer(&scores[0])))
	if code != C.LENET_OK {
		return nil, errors.New(C.GoString(C.lenet_error()))
	}
	return scores, nil
}

func main() {
	if err := classify(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func classify(from io.Reader, to io.Writer) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	images := make([]float32, len(data)/4)
	for i := range images {
		images[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	net, err := New(0)
	if err != nil {
		return err
	}
	defer net.Close()
	scores, err := net.Run(images)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(to)
	defer out.Flush()
	for _, row := range scores {
		for i, score := range row {
			if i > 0 {
				fmt.Fprint(out, " ")
			}
			fmt.Fprintf(out, "%.8g", score)
		}
		fmt.Fprintln(out)
	}
	return nil
}
