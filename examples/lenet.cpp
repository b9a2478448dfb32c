// Reads images (28x28 float32 each) from standard input and prints ten scores for each, using the compiled LeNet.
//
//   polyreme compile examples/lenet.py:LeNet -o lenet.so --c++
//   c++ -std=c++17 -O2 -I. examples/lenet.cpp lenet.so -Wl,-rpath,'$ORIGIN' -o lenet
//   ./lenet < images.f32
#include <cstdio>

#include "lenet.hpp"

constexpr std::int64_t BATCH = 64, PIXELS = 28 * 28, CLASSES = 10;

int main() try {
  const lenet::Model model;
  lenet::Results results;
  std::vector<float> images(BATCH * PIXELS);
  while (const std::size_t count = std::fread(images.data(), PIXELS * sizeof(float), BATCH, stdin)) {
    model.run({images.data(), {static_cast<std::int64_t>(count), 1, 28, 28}}, results);
    for (std::size_t i = 0; i < results.output.data.size(); i++)
      std::printf("%.8g%c", static_cast<double>(results.output.data[i]), (i + 1) % CLASSES ? ' ' : '\n');
  }
} catch (const lenet::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
