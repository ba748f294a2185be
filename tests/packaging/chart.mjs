// chart.mjs FOLDER: checks the Helm chart in packaging: its values against its schema, and what it renders to against the
// schemas of Kubernetes.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parse, parseAllDocuments } from "yaml";
import { render } from "./template.mjs";

const chartFolder = `${process.argv[2]}/helm/graft`;
const read = (name) => readFileSync(`${chartFolder}/${name}`, "utf8");
const templates = readdirSync(`${chartFolder}/templates`);
const chart = parse(read("Chart.yaml"));
const defaults = parse(read("values.yaml"));
const schema = JSON.parse(read("values.schema.json"));

// Values of the user over the defaults, as Helm merges them.
function merged(base, over) {
  if (typeof base !== "object" || base === null || Array.isArray(base) || typeof over !== "object" || Array.isArray(over)) return over;
  const out = { ...base };
  for (const [key, value] of Object.entries(over)) out[key] = key in base ? merged(base[key], value) : value;
  return out;
}

function rendered(values) {
  const root = {
    Values: merged(defaults, values),
    Release: { Name: "llm", Namespace: "apps" },
    Chart: { Name: chart.name, Version: chart.version, AppVersion: chart.appVersion },
  };
  const objects = [];
  for (const name of templates) {
    const text = render(read(`templates/${name}`), root);
    if (!name.endsWith(".yaml")) continue;
    for (const document of parseAllDocuments(text)) {
      assert.deepEqual(document.errors, [], `${name}:\n${text}`);
      const object = document.toJS();
      if (object !== null) objects.push(object);
    }
  }
  return objects;
}

async function checked(values) {
  const objects = rendered(values);
  for (const object of objects) {
    if (object.kind === "ServiceMonitor") continue; // of an operator
    const module = await import(`kubernetes-models/${object.apiVersion}`);
    new module[object.kind](object).validate();
  }
  const find = (kind) => objects.find((object) => object.kind === kind);
  const deployment = find("Deployment");
  const pod = deployment.spec.template;
  return { objects, find, deployment, pod, container: pod.spec.containers[0] };
}

function checkSchema() {
  const require = createRequire(import.meta.url);
  const Ajv = require("ajv").default;
  const check = new Ajv({ strict: false }).compile(schema);
  assert.ok(check(defaults), JSON.stringify(check.errors));
  for (const broken of [{ replicas: "2" }, { gpus: 1 }, { gpu: { count: -1 } }, { resources: { memory: "lots" } }, { model: "a" }, { models: { accessMode: "Any" } }])
    assert.ok(!check(merged(defaults, broken)), JSON.stringify(broken));
}

// Every value that a template uses is in values.yaml and in the schema, and every one there is used.
function checkNames() {
  const used = new Set();
  for (const name of templates) {
    for (const [, path] of read(`templates/${name}`).matchAll(/\.Values\.([A-Za-z.]+)/g)) used.add(path);
  }
  const known = [];
  for (const [key, value] of Object.entries(defaults)) {
    const isGroup = schema.properties[key]?.properties !== undefined;
    known.push(...(isGroup ? Object.keys(value).map((each) => `${key}.${each}`) : [key]));
    if (isGroup) assert.deepEqual(Object.keys(value).sort(), Object.keys(schema.properties[key].properties).sort(), key);
  }
  assert.deepEqual([...used].sort(), known.sort());
  const properties = Object.keys(schema.properties).filter((name) => name !== "global"); // of Helm
  assert.deepEqual(Object.keys(defaults).sort(), properties.sort());
}

async function checkDefaults() {
  const { objects, find, deployment, pod, container } = await checked({});
  assert.deepEqual(objects.map((object) => object.kind).sort(), ["Deployment", "PersistentVolumeClaim", "Service"]);
  assert.deepEqual(deployment.spec.selector.matchLabels, pod.metadata.labels);
  assert.deepEqual(find("Service").spec.selector, pod.metadata.labels);
  assert.equal(find("Service").spec.ports[0].targetPort, container.ports[0].name);
  assert.equal(container.readinessProbe.httpGet.path, "/ready");
  assert.equal(container.startupProbe.failureThreshold, 720);
  assert.equal(container.image, `graft:${chart.appVersion}`);
  assert.equal(pod.metadata.annotations["prometheus.io/path"], "/metrics");
  assert.equal(pod.spec.terminationGracePeriodSeconds, 60);
  assert.deepEqual(container.resources.limits, { memory: "16Gi" });
  const claim = pod.spec.volumes.find((volume) => volume.persistentVolumeClaim).persistentVolumeClaim;
  assert.equal(claim.claimName, find("PersistentVolumeClaim").metadata.name);
}

async function checkEverythingSet() {
  const { objects, find, deployment, pod, container } = await checked({
    image: { repository: "registry.example/graft", tag: "cuda" },
    imagePullSecrets: [{ name: "registry" }],
    replicas: 3,
    model: ["org/repo:Q4_K_M", "small=tiny.gguf"],
    args: ["--max-model-len", "32768"],
    allowedHosts: ["chat.example"],
    apiKeys: { secret: "graft-keys", metricsKey: "scrape" },
    gpu: { count: 2 },
    models: { existingClaim: "shared", accessMode: "ReadWriteMany" },
    metrics: { annotations: false, serviceMonitor: true },
    env: [{ name: "HF_TOKEN", valueFrom: { secretKeyRef: { name: "hub", key: "token" } } }],
    podAnnotations: { team: "search" },
    nodeSelector: { gpu: "h200" },
    tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
    affinity: { nodeAffinity: {} },
  });
  assert.deepEqual(objects.map((object) => object.kind).sort(), ["Deployment", "Service", "ServiceMonitor"]);
  assert.equal(deployment.spec.strategy.type, "RollingUpdate");
  assert.equal(container.resources.limits["nvidia.com/gpu"], 2);
  for (const words of [["--model", "org/repo:Q4_K_M"], ["--allowed-host", "chat.example"], ["--api-key-file", "/etc/graft/keys/keys"], ["--max-model-len", "32768"]]) {
    const at = container.args.findIndex((word, i) => word === words[0] && container.args[i + 1] === words[1]);
    assert.ok(at > 0, words.join(" "));
  }
  const volumes = pod.spec.volumes.map((volume) => volume.name);
  for (const mount of container.volumeMounts) assert.ok(volumes.includes(mount.name), mount.name);
  assert.deepEqual(pod.metadata.annotations, { "graft/chart": chart.version, team: "search" });
  assert.equal(container.env.at(-1).name, "HF_TOKEN");
  assert.deepEqual(find("ServiceMonitor").spec.selector.matchLabels, pod.metadata.labels);
  assert.deepEqual(find("ServiceMonitor").spec.endpoints[0].authorization.credentials, { name: "graft-keys", key: "scrape" });
  const without = await checked({ models: { enabled: false } });
  assert.equal(without.find("PersistentVolumeClaim"), undefined);
}

checkSchema();
checkNames();
await checkDefaults();
await checkEverythingSet();
// The checks themselves can fail.
assert.throws(() => render("{{ .Values.none }}", { Values: {} }));
await assert.rejects(() => checked({ replicas: "many" }));
console.log("chart: valid");
