// Runs a module of WebAssembly on files, as benchmarks/run_library.c does a library:
//
//   node runtime/wasm/run_module.mjs ./net.wasm net THREADS FOLDER
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [file, , , folder] = process.argv.slice(2);
const { load } = await import(pathToFileURL(file.replace(/\.wasm$/, ".mjs")).href);
const model = await load();
const lines = (await readFile(join(folder, "shapes"), "utf8")).trimEnd().split("\n");
const halves = "Float16Array" in globalThis ? Float16Array : Uint16Array;
const arrays = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array, float16: halves,
  bfloat16: Uint16Array, complex64: Float32Array, complex128: Float64Array,
};
const inputs = [];
for (const [i, { dtype }] of model.inputs.entries()) {
  const bytes = await readFile(join(folder, `input${i}`));
  const shape = lines[i].split(" ").slice(1).map(Number);
  inputs.push({ data: new arrays[dtype](new Uint8Array(bytes).buffer), shape });
}
let results;
try {
  results = model.run(inputs);
} catch (error) {
  if (error.name !== "ModelError") throw error;
  console.error(error.message);
  process.exit(1);
}
for (const [i, { name }] of model.outputs.entries()) {
  const { data, shape, dtype } = results[name];
  await writeFile(join(folder, `output${i}`), new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  console.log([dtype, ...shape].join(" "));
}
model.destroy();
