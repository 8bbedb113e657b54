/**
 * A thread beside the page that computes a model with onnxruntime-web, so that the page never
 * stands still. It is told `open` (a graph with its weights) or `run` (pixels), one at a time. Its
 * text becomes a worker: it uses nothing from outside.
 */
export function modelThread(self) {
  let runtime, session;

  const kinds = {
    async open({ module, text, binary, gpu, graph, weights, name }) {
      if (!runtime) {
        // Of a page that is a file, a thread may import only what it made itself.
        runtime = await import(module ?? URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
        runtime.env.wasm.wasmBinary = binary;
        runtime.env.wasm.numThreads = 1; // more need headers that a static host does not send
        runtime.env.logLevel = "error";
      }
      await session?.release();
      session = null;
      session = await runtime.InferenceSession.create(graph, {
        executionProviders: gpu ? ["webgpu"] : ["wasm"],
        externalData: [{ path: name, data: weights }],
        // The weights become float32 as they are loaded, once, and not in every run.
        extra: { session: { disable_quant_qdq: "1" } },
      });
      return {};
    },
    async run({ pixels, channels, size }) {
      const given = { pixels: new runtime.Tensor("uint8", pixels, [1, channels, ...size]) };
      const began = performance.now(), found = await session.run(given), outputs = {};
      for (const [name, tensor] of Object.entries(found)) {
        const data = await tensor.getData(); // whole numbers of 64 bits need Number
        outputs[name] = { dims: tensor.dims, data: Float32Array.from(data, Number) };
        tensor.dispose();
      }
      return { outputs, seconds: (performance.now() - began) / 1000 };
    },
  };

  self.onmessage = async ({ data: { id, kind, ...told } }) => {
    try {
      const given = await kinds[kind](told);
      const moved = Object.values(given.outputs ?? {}).map(({ data }) => data.buffer);
      self.postMessage({ id, given }, moved);
    } catch (error) {
      self.postMessage({ id, error: String(error?.message ?? error) });
    }
  };
}
