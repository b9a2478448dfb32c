/* Reads images (28x28 float32 each) from standard input and prints ten scores for each, using the compiled LeNet.
 *
 *   polyreme compile examples/lenet.py:LeNet -o lenet.so
 *   cc -O2 -I. examples/lenet.c lenet.so -Wl,-rpath,'$ORIGIN' -o lenet
 *   ./lenet < images.f32
 */
#include <stdio.h>
#include "lenet.h"

enum { BATCH = 64, PIXELS = 28 * 28, CLASSES = 10 };
static float images[BATCH][PIXELS], scores[BATCH][CLASSES];

int main(void) {
  const char *error;
  lenet_model *model = lenet_create(0, &error);
  if (model == NULL) return fprintf(stderr, "lenet_create: %s\n", error), 1;

  int64_t count;
  while ((count = (int64_t)fread(images, sizeof images[0], BATCH, stdin)) > 0) {
    const int64_t shape[4] = {count, 1, 28, 28};
    const void *inputs[] = {images};
    const int64_t *shapes[] = {shape};
    void *outputs[] = {scores};
    if (lenet_run(model, inputs, shapes, outputs) != LENET_OK) return fprintf(stderr, "lenet_run: %s\n", lenet_error()), 1;
    for (int64_t i = 0; i < count; i++)
      for (int j = 0; j < CLASSES; j++) printf("%.8g%c", scores[i][j], j + 1 < CLASSES ? ' ' : '\n');
  }
  lenet_destroy(model);
  return 0;
}
