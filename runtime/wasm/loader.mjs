
/** What went wrong, in the module's own words. `code` is one of BAD_ARGUMENT, BAD_SHAPE, NO_MEMORY, BAD_WEIGHTS, BAD_DATA, BAD_MODULE. */
export class ModelError extends Error {
  constructor(message, code, cause) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "ModelError";
    this.code = code;
  }
}

const CODES = ["OK", "BAD_ARGUMENT", "BAD_SHAPE", "NO_MEMORY", "BAD_WEIGHTS", "BAD_DATA", "TOO_SMALL"];
const TOO_SMALL = 6;
// Of unknown sizes, the room that a first run gets.
const FIRST_ROOM = 256;

// By dtype: the kinds of typed arrays that are taken, of which the first is given; how many of its elements one element takes.
const KINDS = {
  float32: ["Float32Array"], float64: ["Float64Array"], int8: ["Int8Array"], int16: ["Int16Array"], int32: ["Int32Array"],
  int64: ["BigInt64Array"], uint8: ["Uint8Array", "Uint8ClampedArray"], uint16: ["Uint16Array"], uint32: ["Uint32Array"],
  uint64: ["BigUint64Array"], bool: ["Uint8Array"], bfloat16: ["Uint16Array"],
  float16: ["Float16Array", "Uint16Array"], complex64: ["Float32Array"], complex128: ["Float64Array"],
};
const kindsOf = (dtype) => KINDS[dtype].filter((kind) => kind in globalThis);
const perElement = (dtype) => (dtype.startsWith("complex") ? 2 : 1);
const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

/**
 * Loads the module, and its weights if they have a file of their own. By default both are beside this script; `module` and `weights` may
 * be a URL, a Response, bytes (an ArrayBuffer or a typed array), and `module` a WebAssembly.Module, too.
 */
export async function load({ module, weights } = {}) {
  const compiled = await compiledModule(module ?? new URL(MODEL.file, import.meta.url));
  const bytes = MODEL.weights ? await bytesOf(weights ?? new URL(MODEL.weights, import.meta.url)) : undefined;
  return new Model(compiled, bytes);
}

async function compiledModule(source) {
  if (source instanceof WebAssembly.Module) return source;
  try {
    return await WebAssembly.compile(await bytesOf(source));
  } catch (error) {
    if (!(error instanceof WebAssembly.CompileError)) throw error;
    const why = `${MODEL.file} cannot be compiled: it is damaged, or this engine has no WebAssembly with SIMD: ${error.message}`;
    throw new ModelError(why, "BAD_MODULE", error);
  }
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const isResponse = typeof Response !== "undefined" && source instanceof Response;
  const url = isResponse ? source.url : new URL(source, import.meta.url);
  if (!isResponse && url.protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url));
  }
  const response = isResponse ? source : await fetch(url);
  if (!response.ok) throw new ModelError(`${url}: the server answered ${response.status}`, "BAD_MODULE");
  return new Uint8Array(await response.arrayBuffer());
}

/** A model that is ready to run; `inputs` and `outputs` say what it takes and gives, with -1 for a free size. */
export class Model {
  #functions;
  #memory;
  #model = 0;
  #room = new Map();
  #blocks = new Map();

  /** Of a WebAssembly.Module, and the bytes of the weights' file if there is one. */
  constructor(module, weights) {
    const { memory, ...functions } = new WebAssembly.Instance(module, {}).exports;
    this.#functions = functions;
    this.#memory = memory;
    const place = weights === undefined ? 0 : this.#place(weights);
    const error = this.#block("error", 4);
    this.#model = place ? this.#call("create_with_weights", place, 0, error) : this.#call("create", 0, error);
    if (!this.#model) {
      const text = this.#text(this.#pointers(error, 1)[0]);
      throw new ModelError(text, weights === undefined ? "NO_MEMORY" : "BAD_WEIGHTS");
    }
    this.inputs = Object.freeze(this.#tensors("input"));
    this.outputs = Object.freeze(this.#tensors("output"));
  }

  /**
   * Runs the model. `given` has the inputs by name, or in their order: each a typed array, an array of numbers, or { data, shape } with one
   * of these. A shape may be left out where it is fixed but for one size. The result has the outputs by name: { data, shape, dtype }.
   */
  run(given) {
    const inputs = this.#taken(given);
    const [places, shapes] = this.#placed(inputs);
    let sizes = this.#outputShapes(shapes);
    const known = !sizes.flat().includes(-1);
    const kept = this.#room.get("outputs") ?? this.outputs.map(() => FIRST_ROOM);
    let room = sizes.map((shape, i) => (shape.includes(-1) ? kept[i] : product(shape)));
    for (;;) {
      const outputs = this.outputs.map(({ dtype }, i) => this.#block(`output ${i}`, room[i] * bytesPerElement(dtype)));
      const [pointers, targets] = [this.#list("outputs", outputs), this.#sizePlaces("shapes", this.outputs)];
      const capacities = this.#block("capacities", 8 * room.length);
      this.#longs(capacities, room.length).set(room.map(BigInt));
      const code = this.#call("run_sized", this.#model, places, shapes, pointers, capacities, targets.list);
      sizes = known ? sizes : this.#readSizes(targets, this.outputs);
      if (code === TOO_SMALL && !known && sizes.some((shape, i) => product(shape) > room[i])) {
        room = sizes.map((shape, i) => Math.max(room[i], product(shape)));
        this.#room.set("outputs", room);
        continue;
      }
      this.#check(code);
      return this.#results(outputs, sizes);
    }
  }

  /** The shapes that the outputs will have, by name; -1 for a size that only a run tells. */
  outputShapes(given) {
    const [, shapes] = this.#placed(this.#taken(given));
    const sizes = this.#outputShapes(shapes);
    return Object.fromEntries(this.outputs.map(({ name }, i) => [name, sizes[i]]));
  }

  /** Reads all weights and compares them with the checksum that was taken when the module was written. */
  checkWeights() {
    this.#check(this.#call("check_weights", this.#model));
  }

  /** Gives back what the model holds; nothing may be asked of it any more. */
  destroy() {
    if (this.#model) this.#call("destroy", this.#model);
    this.#model = 0;
    for (const { at } of this.#blocks.values()) this.#call("free", at);
    this.#blocks.clear();
  }

  // --- what is given

  #taken(given) {
    const names = this.inputs.map(({ name }) => name);
    let list = given;
    if (!Array.isArray(given)) {
      const more = Object.keys(given ?? {}).filter((name) => !names.includes(name));
      if (more.length) throw new ModelError(`expected the inputs ${names.join(", ")} but got '${more[0]}'`, "BAD_ARGUMENT");
      list = names.map((name) => given?.[name]);
    }
    if (list.length !== names.length) {
      throw new ModelError(`expected ${names.length} inputs (${names.join(", ")}) but got ${list.length}`, "BAD_ARGUMENT");
    }
    return list.map((value, i) => taken(value, this.inputs[i]));
  }

  #placed(inputs) {
    const places = inputs.map(({ data }, i) => this.#block(`input ${i}`, data.byteLength));
    const list = this.#list("inputs", places);
    const sizes = this.#sizePlaces("input shapes", this.inputs);
    // All memory is there by now: views would not outlive its growth.
    inputs.forEach(({ data, shape }, i) => {
      new Uint8Array(this.#memory.buffer, places[i], data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      this.#longs(sizes.places[i], shape.length).set(shape.map(BigInt));
    });
    return [list, sizes.list];
  }

  // --- what is found

  #outputShapes(shapes) {
    const targets = this.#sizePlaces("shapes", this.outputs);
    this.#check(this.#call("output_shapes", shapes, targets.list));
    return this.#readSizes(targets, this.outputs);
  }

  #readSizes({ places }, tensors) {
    return tensors.map(({ shape }, i) => Array.from(this.#longs(places[i], shape.length), Number));
  }

  #results(places, sizes) {
    return Object.fromEntries(
      this.outputs.map(({ name, dtype }, i) => {
        const count = product(sizes[i]) * perElement(dtype);
        const data = new globalThis[kindsOf(dtype)[0]](this.#memory.buffer, places[i], count).slice();
        return [name, { data, shape: sizes[i], dtype }];
      }),
    );
  }

  #tensors(side) {
    return Array.from({ length: this.#call(`${side}_count`) }, (_, i) => {
      const rank = this.#call(`${side}_rank`, i);
      const shape = Array.from(this.#longs(this.#call(`${side}_shape`, i) >>> 0, rank), Number);
      const [name, dtype] = ["name", "dtype"].map((field) => this.#text(this.#call(`${side}_${field}`, i)));
      return Object.freeze({ name, dtype, shape: Object.freeze(shape) });
    });
  }

  // --- calls and memory

  #call(name, ...given) {
    const whole = `${MODEL.name}_${name}`;
    try {
      return this.#functions[whole](...given);
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) throw error;
      throw new ModelError(`${whole} was ended by the engine: ${error.message}`, "BAD_MODULE", error);
    }
  }

  #check(code) {
    if (code !== 0) throw new ModelError(this.#text(this.#call("error")), CODES[code] ?? String(code));
  }

  /** The address of memory of its own for a purpose, which has at least so many bytes. */
  #block(purpose, bytes) {
    const found = this.#blocks.get(purpose);
    if (found !== undefined && found.bytes >= bytes) return found.at;
    if (found !== undefined) {
      this.#blocks.delete(purpose);
      this.#call("free", found.at);
    }
    const at = bytes < 2 ** 32 ? this.#call("allocate", Math.max(bytes, 1)) >>> 0 : 0;
    if (!at) throw new ModelError(`no memory for ${bytes} bytes of ${purpose}`, "NO_MEMORY");
    this.#blocks.set(purpose, { at, bytes });
    return at;
  }

  #place(weights) {
    const wanted = this.#call("weights_bytes") >>> 0;
    if (weights.byteLength !== wanted) {
      const told = `the file of the weights does not belong to this library, or is damaged: ${MODEL.weights} has ${weights.byteLength} bytes`;
      throw new ModelError(`${told}, not ${wanted}`, "BAD_WEIGHTS");
    }
    const at = this.#block("weights", wanted);
    new Uint8Array(this.#memory.buffer, at, wanted).set(weights);
    return at;
  }

  #list(purpose, addresses) {
    const at = this.#block(purpose, 4 * addresses.length);
    this.#pointers(at, addresses.length).set(addresses);
    return at;
  }

  #sizePlaces(purpose, tensors) {
    const places = tensors.map(({ shape }, i) => this.#block(`${purpose} ${i}`, 8 * shape.length));
    return { places, list: this.#list(`${purpose} list`, places) };
  }

  #pointers(at, count) {
    return new Uint32Array(this.#memory.buffer, at, count);
  }

  #longs(at, count) {
    return new BigInt64Array(this.#memory.buffer, at, count);
  }

  #text(at) {
    const bytes = new Uint8Array(this.#memory.buffer, at >>> 0);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }
}

function bytesPerElement(dtype) {
  return globalThis[kindsOf(dtype)[0]].BYTES_PER_ELEMENT * perElement(dtype);
}

/** One input as { data, shape }. */
function taken(value, { name, dtype, shape }) {
  const bad = (text) => new ModelError(`input '${name}': ${text}`, "BAD_ARGUMENT");
  if (value === undefined || value === null) throw bad("expected data but got none");
  const bare = Array.isArray(value) || ArrayBuffer.isView(value);
  const data = asTyped(bare ? value : value.data, dtype, bad);
  const count = data.length / perElement(dtype);
  const found = bare ? undefined : value.shape;
  const sizes = found === undefined ? shapeOf(shape, count, bad) : Array.from(found, Number);
  if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 0)) throw bad(`expected sizes but got [${sizes}]`);
  if (sizes.length !== shape.length) throw bad(`expected ${shape.length} sizes ([${shape}]) but got ${sizes.length} ([${sizes}])`);
  if (product(sizes) !== count) throw bad(`expected ${product(sizes)} elements ([${sizes}]) but got ${count}`);
  return { data, shape: sizes };
}

function shapeOf(shape, count, bad) {
  const free = shape.filter((size) => size < 0).length;
  if (free > 1) throw bad(`expected { data, shape }, because more than one of the sizes [${shape}] is free`);
  const rest = product(shape.filter((size) => size >= 0));
  if (free && (rest === 0 || count % rest)) throw bad(`expected a multiple of ${rest} elements ([${shape}]) but got ${count}`);
  return shape.map((size) => (size < 0 ? count / rest : size));
}

function asTyped(data, dtype, bad) {
  const kinds = kindsOf(dtype);
  const kind = data?.[Symbol.toStringTag];
  if (kinds.includes(kind)) return data;
  if (!Array.isArray(data)) throw bad(`expected ${kinds.join(" or ")} (${dtype}) but got ${kind ?? typeof data}`);
  if (dtype.endsWith("float16") && kinds[0] === "Uint16Array") throw bad("expected Uint16Array, the bits of the numbers, but got an array");
  const Typed = globalThis[kinds[0]];
  const flat = data.flat(Infinity);
  const big = kinds[0].startsWith("Big");
  const made = Typed.from(flat, (x) => (big ? BigInt(x) : Number(x)));
  const whole = !/^(float|bfloat|complex)/.test(dtype);
  const off = whole ? flat.findIndex((x, i) => Number(x) !== Number(made[i])) : -1;
  if (off >= 0) throw bad(`expected numbers of ${dtype} but got ${flat[off]}`);
  return made;
}
