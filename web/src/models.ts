// The models of the server: size and context from their files, devices and memory of those that are loaded.

import { ask, post } from "./api";
import { parseMetrics, type Sample } from "./metrics";

export interface DeviceUse {
  device: string;
  weights: number; // bytes
  cache: number; // KV cache and states
  workspace: number;
}

export interface ModelRow {
  name: string;
  bytes: number;
  parameters: string; // "46.6M"
  quantization: string;
  context: number; // tokens
  isLoaded: boolean;
  devices: DeviceUse[]; // empty: not loaded
}

interface Tag {
  name: string;
  size: number;
  context_length?: number;
  details: { parameter_size: string; quantization_level: string; context_length: number };
}

export function devicesOf(samples: Sample[], model: string): DeviceUse[] {
  const found = new Map<string, DeviceUse>();
  for (const { name, labels, value } of samples) {
    if (name !== "graft:device_memory_bytes" || labels.model_name !== model) continue;
    const device = labels.device ?? "";
    const use = found.get(device) ?? { device, weights: 0, cache: 0, workspace: 0 };
    if (labels.kind === "weights") use.weights += value;
    else if (labels.kind === "workspace") use.workspace += value;
    else use.cache += value;
    found.set(device, use);
  }
  return [...found.values()].filter(({ weights, cache, workspace }) => weights + cache + workspace > 0);
}

export function modelRows(tags: Tag[], loaded: Tag[], samples: Sample[]): ModelRow[] {
  return tags.map(({ name, size, details }) => {
    const running = loaded.find((entry) => entry.name === name);
    return {
      name,
      bytes: size,
      parameters: details.parameter_size,
      quantization: details.quantization_level,
      context: running?.context_length ?? details.context_length,
      isLoaded: running !== undefined,
      devices: running ? devicesOf(samples, name) : [],
    };
  });
}

const vision = new Map<string, boolean>();

// Whether a model has a vision tower. undefined: the server does not say.
export async function readsImages(name: string): Promise<boolean | undefined> {
  if (!vision.has(name)) {
    try {
      const { capabilities } = (await (await post("/api/show", { model: name })).json()) as { capabilities: string[] };
      vision.set(name, capabilities.includes("vision"));
    } catch {
      return undefined; // a request with images gets the reason
    }
  }
  return vision.get(name);
}

export async function listModels(): Promise<ModelRow[]> {
  const [tags, loaded, metrics] = await Promise.all([ask("/api/tags"), ask("/api/ps"), ask("/metrics")]);
  const list = async (response: Response) => ((await response.json()) as { models: Tag[] }).models;
  return modelRows(await list(tags), await list(loaded), parseMetrics(await metrics.text()));
}

// A request without a prompt loads the model; one that also keeps it for 0 seconds unloads it.
export async function loadModel(name: string): Promise<void> {
  await post("/api/generate", { model: name, stream: false });
}

export async function unloadModel(name: string): Promise<void> {
  await post("/api/generate", { model: name, keep_alive: 0, stream: false });
}
