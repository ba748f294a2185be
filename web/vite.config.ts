import { defineConfig, type Plugin } from "vite";

// The server serves status.html at /status; so does `npm run dev`.
const statusPath: Plugin = {
  name: "status-path",
  configureServer(server) {
    server.middlewares.use((request, _response, next) => {
      if (request.url === "/status") request.url = "/status.html";
      next();
    });
  },
};

// `npm run dev` shows the sources with the data of a `graft serve` that runs elsewhere.
const backend = process.env.GRAFT_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [statusPath],
  build: {
    target: "es2022",
    modulePreload: false, // its polyfill; the two pages share one chunk
    assetsInlineLimit: 0, // data: addresses are not allowed by the page's policy
    rollupOptions: { input: ["index.html", "status.html"] },
  },
  server: { proxy: Object.fromEntries(["/v1", "/api", "/tokenize", "/metrics"].map((path) => [path, { target: backend, changeOrigin: true }])) },
});
