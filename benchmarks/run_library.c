/* Runs a compiled model on files: for machines without Python, and for emulators of them.
 *
 *   cc -O1 benchmarks/run_library.c -ldl -o run_library
 *   ./run_library ./net.so net THREADS FOLDER
 *
 * FOLDER/shapes has the rank and the sizes of each input in turn, as numbers; FOLDER/input0, input1, … have their elements as they stand in memory.
 * Elements of the outputs go to FOLDER/output0, …; standard output gets a line for each: its dtype and its sizes.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, MOST_RANK = 16 };

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why ? why : "unknown");
  exit(1);
}

static void *symbol(void *library, const char *name, const char *function) {
  char full[512];
  snprintf(full, sizeof full, "%s_%s", name, function);
  void *found = dlsym(library, full);
  if (!found) fail(full, "not in the library");
  return found;
}

static size_t element_bytes(const char *dtype) {
  if (!strcmp(dtype, "bool") || !strcmp(dtype, "int8") || !strcmp(dtype, "uint8")) return 1;
  if (strstr(dtype, "16")) return 2;
  if (!strcmp(dtype, "complex64")) return 8;
  if (!strcmp(dtype, "complex128")) return 16;
  return strstr(dtype, "32") ? 4 : 8;
}

static size_t bytes_of(const char *dtype, int32_t rank, const int64_t *shape) {
  size_t bytes = element_bytes(dtype);
  for (int32_t i = 0; i < rank; i++) bytes *= (size_t)shape[i];
  return bytes;
}

static FILE *open_part(const char *folder, const char *part, int32_t number, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, number < 0 ? "%s/%s" : "%s/%s%d", folder, part, number);
  FILE *file = fopen(path, mode);
  if (!file) fail(path, "cannot be opened");
  return file;
}

int main(int argc, char **argv) {
  if (argc != 5) fail("usage", "run_library LIBRARY NAME THREADS FOLDER");
  const char *name = argv[2], *folder = argv[4];
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(argv[1], dlerror());

  void *(*create)(int32_t, const char **) = (void *(*)(int32_t, const char **))symbol(library, name, "create");
  void (*destroy)(void *) = (void (*)(void *))symbol(library, name, "destroy");
  int32_t (*run)(void *, const void *const *, const int64_t *const *, void *const *) =
      (int32_t(*)(void *, const void *const *, const int64_t *const *, void *const *))symbol(library, name, "run");
  int32_t (*shapes_of)(const int64_t *const *, int64_t *const *) = (int32_t(*)(const int64_t *const *, int64_t *const *))symbol(library, name, "output_shapes");
  const char *(*error_text)(void) = (const char *(*)(void))symbol(library, name, "error");
  int32_t (*input_count)(void) = (int32_t(*)(void))symbol(library, name, "input_count");
  int32_t (*input_rank)(int32_t) = (int32_t(*)(int32_t))symbol(library, name, "input_rank");
  const char *(*input_dtype)(int32_t) = (const char *(*)(int32_t))symbol(library, name, "input_dtype");
  int32_t (*output_count)(void) = (int32_t(*)(void))symbol(library, name, "output_count");
  int32_t (*output_rank)(int32_t) = (int32_t(*)(int32_t))symbol(library, name, "output_rank");
  const char *(*output_dtype)(int32_t) = (const char *(*)(int32_t))symbol(library, name, "output_dtype");

  static int64_t sizes_in[MOST][MOST_RANK], sizes_out[MOST][MOST_RANK];
  static const int64_t *in_shapes[MOST];
  static int64_t *out_shapes[MOST];
  static const void *inputs[MOST];
  static void *outputs[MOST];
  const int32_t ins = input_count(), outs = output_count();
  if (ins > MOST || outs > MOST) fail("the library", "has more inputs or outputs than this program takes");

  FILE *shapes = open_part(folder, "shapes", -1, "r");
  for (int32_t i = 0; i < ins; i++) {
    int rank;
    if (fscanf(shapes, "%d", &rank) != 1 || rank != input_rank(i) || rank > MOST_RANK) fail("shapes", "not the ranks of the model's inputs");
    for (int k = 0; k < rank; k++)
      if (fscanf(shapes, "%ld", &sizes_in[i][k]) != 1) fail("shapes", "too few numbers");
    in_shapes[i] = sizes_in[i];
    /* One element off the alignment that vectors like: a model may ask for that of an element only. */
    const size_t bytes = bytes_of(input_dtype(i), rank, sizes_in[i]), one = element_bytes(input_dtype(i));
    char *data = malloc(bytes + 64 + one);
    if (!data) fail("input", "no memory");
    data += one;
    FILE *file = open_part(folder, "input", i, "rb");
    if (fread(data, 1, bytes, file) != bytes) fail("input", "too few bytes");
    fclose(file);
    inputs[i] = data;
  }
  fclose(shapes);

  const char *error = NULL;
  void *model = create(atoi(argv[3]), &error);
  if (!model) fail("create", error);
  for (int32_t i = 0; i < outs; i++) out_shapes[i] = sizes_out[i];
  if (shapes_of(in_shapes, out_shapes)) fail("output_shapes", error_text());
  for (int32_t i = 0; i < outs; i++) {
    const size_t one = element_bytes(output_dtype(i));
    outputs[i] = (char *)malloc(bytes_of(output_dtype(i), output_rank(i), sizes_out[i]) + 64 + one) + one;
  }
  if (run(model, inputs, in_shapes, outputs)) fail("run", error_text());
  for (int32_t i = 0; i < outs; i++) {
    FILE *file = open_part(folder, "output", i, "wb");
    fwrite(outputs[i], 1, bytes_of(output_dtype(i), output_rank(i), sizes_out[i]), file);
    if (fclose(file)) fail("output", "cannot be written");
    printf("%s", output_dtype(i));
    for (int32_t k = 0; k < output_rank(i); k++) printf(" %ld", (long)sizes_out[i][k]);
    printf("\n");
  }
  destroy(model);
  return 0;
}
