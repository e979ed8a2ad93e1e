// node run_steps.cjs (step.onnx INPUTS OUTPUTS STEPS BATCH D+NOISE STATE_SIZE)...
//
// INPUTS: float64 (STEPS, BATCH, D + NOISE), of which the last NOISE are the input "noise", if there are any. OUTPUTS: float64 closures (STEPS, BATCH, d_out), then the last state as float32.
const fs = require("fs");
const ort = require("onnxruntime-web");

async function runSteps([model, inputs, outputs, ...sizes]) {
  const [steps, batch, , stateSize] = sizes.map(Number);
  const [resolvedSize, noiseSize] = sizes[2].split("+").map(Number);
  const inputSize = resolvedSize + noiseSize;
  const session = await ort.InferenceSession.create(fs.readFileSync(model));
  const raw = fs.readFileSync(inputs);
  const x = new Float64Array(raw.buffer, raw.byteOffset, steps * batch * inputSize);
  let state = new ort.Tensor("float32", new Float32Array(batch * stateSize), [batch, stateSize]);
  const results = [];
  for (let n = 0; n < steps; ++n) {
    const now = x.slice(n * batch * inputSize, (n + 1) * batch * inputSize);
    const part = (first, end) =>
      Array.from({ length: batch }, (_, b) => Array.from(now.slice(b * inputSize + first, b * inputSize + end))).flat();
    const resolved = new ort.Tensor("float64", Float64Array.from(part(0, resolvedSize)), [batch, resolvedSize]);
    const feeds = { resolved, state };
    if (noiseSize > 0)
      feeds.noise = new ort.Tensor("float32", Float32Array.from(part(resolvedSize, inputSize)), [batch, noiseSize]);
    const result = await session.run(feeds);
    results.push(Buffer.from(result.closure.data.slice().buffer));
    state = result.next_state;
  }
  results.push(Buffer.from(state.data.slice().buffer));
  fs.writeFileSync(outputs, Buffer.concat(results));
}

async function main(arguments) {
  ort.env.wasm.numThreads = 1;
  for (let i = 0; i < arguments.length; i += 7) await runSteps(arguments.slice(i, i + 7));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(String(error));
  process.exit(1);
});
