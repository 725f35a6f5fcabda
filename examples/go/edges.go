// Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
//
//	edges IMAGE.pgm
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"os"
)

const (
	filters = 2
	size    = 3
)

// Changes of brightness from left to right and from top to bottom, above 100.
var filter = []float32{
	-1, 0, 1, -2, 0, 2, -1, 0, 1,
	-1, -2, -1, 0, 0, 0, 1, 2, 1,
}
var bias = []float32{-100, -100}

type image struct {
	height, width int
	pixels        []float32
}

// readImage reads a PGM file of plain text.
func readImage(path string) (*image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	var picture image
	var maximum int
	_, err = fmt.Fscanf(reader, "P2\n%d %d\n%d", &picture.width, &picture.height, &maximum)
	if err != nil {
		return nil, fmt.Errorf("not a plain PGM file: %w", err)
	}
	picture.pixels = make([]float32, picture.height*picture.width)
	for i := range picture.pixels {
		if _, err := fmt.Fscan(reader, &picture.pixels[i]); err != nil {
			return nil, fmt.Errorf("the image is cut short: %w", err)
		}
	}
	return &picture, nil
}

func expected(picture *image, k, p, q int) float32 {
	sum := bias[k]
	for r := 0; r < size; r++ {
		for s := 0; s < size; s++ {
			y, x := p+r-1, q+s-1
			if 0 <= y && y < picture.height && 0 <= x && x < picture.width {
				sum += filter[(k*size+r)*size+s] * picture.pixels[y*picture.width+x]
			}
		}
	}
	if sum < 0 {
		return 0
	}
	return sum
}

// isRight says whether the outputs, which are whole numbers, are right to the last bit.
func isRight(picture *image, output []float32) bool {
	plane := picture.height * picture.width
	for i, found := range output {
		if found != expected(picture, i/plane, i%plane/picture.width, i%picture.width) {
			return false
		}
	}
	return len(output) == filters*plane
}

func findEdges(picture *image, device int) error {
	plan, err := newPlan(conv2d{1, picture.height, picture.width, filters, size}, device)
	if err != nil {
		return err
	}
	defer plan.close()
	output, err := plan.run(picture.pixels, filter, bias)
	if err != nil {
		return err
	}
	if !isRight(picture, output) {
		return errors.New("wrong")
	}
	var sum float64
	for _, value := range output {
		sum += float64(value)
	}
	name := "cuda"
	if device == cpu {
		name = "cpu"
	}
	fmt.Printf("%s: %s, sum %.0f\n", name, plan.algorithm(), sum)
	return nil
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: edges IMAGE.pgm")
	}
	picture, err := readImage(os.Args[1])
	if err != nil {
		return err
	}
	if err := findEdges(picture, cpu); err != nil {
		return err
	}
	if _, reason := cudaDeviceCount(); reason != nil {
		fmt.Println("no GPU:", reason)
		return nil
	}
	return findEdges(picture, 0)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
