// node step_time.cjs step.onnx INPUTS STATE_SIZE: milliseconds to open a model with onnxruntime-web (WebAssembly, one thread), resident
// memory, and microseconds of a step at 1, 50 and 1000 columns, the smallest of many short rounds.
//
// NODE_PATH=tests/onnx/node_modules finds the package; `mac export MODEL -o step.onnx` writes the file.
const fs = require("fs");
const ort = require("onnxruntime-web");

async function main(path) {
  ort.env.wasm.numThreads = 1;
  const begin = process.hrtime.bigint();
  const session = await ort.InferenceSession.create(fs.readFileSync(path));
  const opened = Number(process.hrtime.bigint() - begin) / 1e6;
  const inputs = Number(process.argv[3]), stateSize = Number(process.argv[4]);
  for (const columns of [1, 50, 1000]) {
    const resolved = new ort.Tensor("float64", new Float64Array(columns * inputs).fill(0.3), [columns, inputs]);
    let state = new ort.Tensor("float32", new Float32Array(columns * stateSize), [columns, stateSize]);
    let best = Infinity;
    const rounds = columns < 1000 ? 300 : 30;
    for (let round = 0; round < rounds; ++round) {
      const start = process.hrtime.bigint();
      const result = await session.run({ resolved, state });
      const elapsed = Number(process.hrtime.bigint() - start) / 1e3;
      state = result.next_state;
      if (elapsed < best) best = elapsed;
    }
    console.log(`onnxruntime-web ${String(columns).padStart(6)} columns ${best.toFixed(1).padStart(10)} us`);
  }
  console.log(`opened in ${opened.toFixed(0)} ms, ${(process.memoryUsage().rss / 1e6).toFixed(0)} MB resident`);
}

main(process.argv[2]).catch((error) => {
  console.error(String(error));
  process.exit(1);
});
