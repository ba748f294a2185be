// Whole models from a local server with the protocols of the hubs, by the real client.

#include "graft/hub/pull.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/hub/hf_cache.h"
#include "graft/hub/hugging_face.h"
#include "graft/hub/modelscope.h"
#include "graft/testing/hub/hub_peer.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

using testing::HubPeer;

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class PullTest : public ::testing::Test {
 protected:
  PullTest() {
    env_.hf_endpoint = peer_.url();
    env_.modelscope_endpoint = peer_.url();
    env_.ollama_registry = peer_.url();
    env_.hf_cache = home_ / "hub";
    env_.ollama_store = home_ / "ollama";
    env_.models = home_ / "models";
    env_.home = home_.path();
    peer_.add_file("org/repo", "m-Q4_K_M.gguf", kModel);
    peer_.add_file("org/repo", "sub/m-Q8_0-00001-of-00002.gguf", "first" + kModel);
    peer_.add_file("org/repo", "sub/m-Q8_0-00002-of-00002.gguf", "second" + kModel);
    peer_.add_file("org/folder", "config.json", "{}");
    peer_.add_file("org/folder", "model.safetensors", kModel);
    peer_.add_file("org/folder", "README.md", "x");
    peer_.add_ollama("library/llama", "1b", {{"model", kModel}, {"params", "{\"stop\":[]}"}});
  }

  fs::path pull(const std::string& text) {
    const ModelRef ref = *parse_model_ref(text);
    FetchOptions options;
    options.download.http = http();
    return fetch(look_up(ref, env_, http()), env_, options);
  }

  static HttpConfig http() {
    HttpConfig config;
    config.first_delay_seconds = 0.01;
    config.max_attempts = 3;
    return config;
  }

  std::string error_of(const std::string& text) {
    try {
      pull(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::optional<fs::path> found(const std::string& text) const {
    return find_pulled(*parse_model_ref(text), env_);
  }

  static inline const std::string kModel = std::string(5000, 'm');
  TempDir home_;
  HubPeer peer_;
  Environment env_;
};

TEST_F(PullTest, StoresHuggingFaceModelsInItsCache) {
  EXPECT_EQ(found("org/repo"), std::nullopt);
  const fs::path path = pull("org/repo");
  const fs::path folder = env_.hf_cache / "models--org--repo";
  EXPECT_EQ(path, folder / "snapshots" / HubPeer::kCommit / "m-Q4_K_M.gguf");
  EXPECT_EQ(file_text(path), kModel);
  EXPECT_EQ(fs::read_symlink(path), "../../blobs/" + testing::sha256_hex(kModel));
  EXPECT_EQ(file_text(folder / "refs/main"), HubPeer::kCommit);
  EXPECT_EQ(found("org/repo"), path);
  EXPECT_EQ(found("org/repo:Q4_K_M"), path);
  EXPECT_EQ(found("org/repo:Q8_0"), std::nullopt);
}

TEST_F(PullTest, PullsSplitFilesInFolders) {
  const fs::path path = pull("org/repo:Q8_0");
  EXPECT_EQ(file_text(path), "first" + kModel);
  EXPECT_EQ(file_text(path.parent_path() / "m-Q8_0-00002-of-00002.gguf"), "second" + kModel);
  EXPECT_EQ(fs::read_symlink(path).parent_path(), "../../../blobs");
  EXPECT_EQ(found("org/repo:Q8_0"), path);
}

TEST_F(PullTest, PullsFoldersOfSafetensors) {
  const fs::path path = pull("org/folder");
  EXPECT_EQ(file_text(path / "config.json"), "{}");
  EXPECT_EQ(file_text(path / "model.safetensors"), kModel);
  EXPECT_FALSE(fs::exists(path / "README.md"));
  EXPECT_EQ(found("org/folder"), path);
}

TEST_F(PullTest, SendsTheTokenToTheHubOnly) {
  peer_.set_token("secret");
  EXPECT_NE(error_of("org/repo").find("access denied (status 401)"), std::string::npos);
  env_.hf_token = "secret";
  pull("org/repo");
  EXPECT_FALSE(peer_.storage().requests().empty());
  for (const auto& request : peer_.storage().requests())
    EXPECT_FALSE(request.headers.contains("authorization")) << request.target;
}

TEST_F(PullTest, NeverTouchesTheNetworkOffline) {
  const fs::path path = pull("org/repo");
  const std::size_t before = peer_.hub().requests().size();
  env_.is_offline = true;
  EXPECT_EQ(found("org/repo"), path);
  EXPECT_NE(error_of("org/repo:Q8_0").find("HF_HUB_OFFLINE is set"), std::string::npos);
  EXPECT_NE(error_of("ollama:llama:1b").find("HF_HUB_OFFLINE is set"), std::string::npos);
  EXPECT_EQ(peer_.hub().requests().size(), before);
}

TEST_F(PullTest, ReportsUnknownModels) {
  EXPECT_NE(error_of("org/missing").find("org/missing: not found"), std::string::npos);
  EXPECT_NE(error_of("org/repo:Q2_K").find("m-Q4_K_M (4.9 KiB)"), std::string::npos);
  EXPECT_NE(error_of("ollama:llama:7b").find("not found"), std::string::npos);
}

TEST_F(PullTest, RejectsWrongHashes) {
  peer_.set_false_sha256(std::string(64, 'd'));
  EXPECT_NE(error_of("org/repo").find("SHA-256 is "), std::string::npos);
  EXPECT_EQ(found("org/repo"), std::nullopt);
  EXPECT_NE(error_of("ms:org/repo").find("SHA-256 is "), std::string::npos);
  EXPECT_EQ(found("ms:org/repo"), std::nullopt);
}

TEST_F(PullTest, SurvivesFaultsOfTheHub) {
  peer_.add_fault({.target = "/api/models/", .response = {.status = 503}});
  peer_.add_fault({.target = "/storage/", .times = 2, .break_after = 100});
  EXPECT_EQ(file_text(pull("org/repo")), kModel);
}

TEST_F(PullTest, PullsFromModelScope) {
  const fs::path path = pull("ms:org/repo:Q8_0");
  EXPECT_EQ(path, env_.models / "org/repo/sub/m-Q8_0-00001-of-00002.gguf");
  EXPECT_EQ(file_text(path), "first" + kModel);
  EXPECT_EQ(found("ms:org/repo:Q8_0"), path);
  EXPECT_EQ(pull("ms:org/folder"), env_.models / "org/folder");
  EXPECT_TRUE(found("ms:org/folder").has_value());
}

TEST_F(PullTest, PullsUrls) {
  const std::string url = peer_.url() + "/org/repo/resolve/main/m-Q4_K_M.gguf";
  const fs::path path = pull(url);
  EXPECT_EQ(file_text(path), kModel);
  EXPECT_EQ(found(url), path);
  EXPECT_NE(error_of(peer_.url() + "/x.txt").find("expected the URL of a .gguf file"),
            std::string::npos);
  const std::string split = peer_.url() + "/org/repo/resolve/main/sub/m-Q8_0-00001-of-00002.gguf";
  EXPECT_EQ(file_text(pull(split).parent_path() / "m-Q8_0-00002-of-00002.gguf"), "second" + kModel);
}

TEST_F(PullTest, PullsUrlsOfServersWithoutRangesAndSizes) {
  const std::string url = peer_.url() + "/org/repo/resolve/main/m-Q4_K_M.gguf";
  const ModelRef ref = *parse_model_ref(url);
  peer_.set_ranges(false);
  EXPECT_EQ(look_up(ref, env_, http()).chosen.bytes(), kModel.size());
  EXPECT_EQ(file_text(pull(url)), kModel);
  fs::remove_all(env_.models);
  peer_.set_length(false);
  EXPECT_EQ(look_up(ref, env_, http()).chosen.bytes(), 0U);
  EXPECT_EQ(file_text(pull(url)), kModel);
  EXPECT_TRUE(found(url).has_value());
}

TEST_F(PullTest, PullsFromOllamaIntoItsLayout) {
  const fs::path path = pull("ollama:llama:1b");
  EXPECT_EQ(path, env_.ollama_store / ("blobs/sha256-" + testing::sha256_hex(kModel)));
  EXPECT_EQ(file_text(path), kModel);
  EXPECT_TRUE(fs::exists(env_.ollama_store / "manifests/registry.ollama.ai/library/llama/1b"));
  EXPECT_EQ(found("ollama:llama:1b"), path);
  const OllamaStore store(env_.ollama_store);
  const ModelRef ref = parse_ollama_name("llama:1b");
  EXPECT_EQ(store.layer_text(*store.find(ref), "params"), "{\"stop\":[]}");
  // A copy keeps the blobs that the original no longer needs.
  store.write_manifest(parse_ollama_name("copy"), *store.find(ref));
  ASSERT_EQ(store.list().size(), 2U);
  EXPECT_EQ(store.list()[0].name, "copy:latest");
  EXPECT_TRUE(store.remove(ref));
  EXPECT_FALSE(store.remove(ref));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(store.remove(parse_ollama_name("copy")));
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PullTest, GetsTheTokensThatARegistryWants) {
  peer_.give_tokens(2);  // fewer than the requests of a pull
  EXPECT_EQ(file_text(pull("ollama:llama:1b")), kModel);
  int num_tokens = 0;
  for (const testing::PeerRequest& request : peer_.hub().requests())
    num_tokens += request.target.starts_with("/token?") ? 1 : 0;
  EXPECT_GE(num_tokens, 2);
  ASSERT_FALSE(peer_.storage().requests().empty());
  for (const testing::PeerRequest& request : peer_.storage().requests())
    EXPECT_FALSE(request.headers.contains("authorization"));
}

TEST_F(PullTest, SaysThatARegistryGivesNoToken) {
  peer_.give_tokens(2);
  peer_.add_fault({.target = "/token", .times = 9, .response = {.status = 403}});
  EXPECT_NE(error_of("ollama:llama:1b").find("ollama:llama:1b: access denied (status 401)"),
            std::string::npos);
}

TEST_F(PullTest, ChecksTheSpaceForAllFilesFirst) {
  const RemoteModel model = look_up(*parse_model_ref("org/repo:Q8_0"), env_, http());
  FetchOptions options;
  options.download.free_bytes = [](const fs::path&) { return std::uint64_t{6000}; };
  EXPECT_THROW(fetch(model, env_, options), Error);
  EXPECT_TRUE(peer_.storage().requests().empty());
}

TEST_F(PullTest, RemovesFilesAndUnusedBlobs) {
  const fs::path path = pull("org/repo");
  pull("org/repo:Q8_0");
  const fs::path blob = fs::canonical(path);
  const HfCache cache(env_.hf_cache, "org/repo");
  EXPECT_EQ(cache.remove({"m-Q4_K_M.gguf"}), kModel.size());
  EXPECT_FALSE(fs::exists(blob));
  EXPECT_TRUE(found("org/repo:Q8_0").has_value());
  cache.remove({"sub/m-Q8_0-00001-of-00002.gguf", "sub/m-Q8_0-00002-of-00002.gguf"});
  EXPECT_FALSE(fs::exists(cache.folder()));
}

TEST(HubJson, RejectsMalformedLists) {
  const std::string commit = HubPeer::kCommit;
  const auto list = [&](const std::string& siblings) {
    return R"({"sha":")" + commit + R"(","siblings":)" + siblings + "}";
  };
  EXPECT_EQ(parse_hugging_face(list(R"([{"rfilename":"a","size":1}])"), "r").files.size(), 1U);
  for (const std::string& text :
       {std::string("[]"), std::string("{"), list("{}"), list(R"([{"rfilename":"../a","size":1}])"),
        list(R"([{"rfilename":"a","size":-1}])"), list(R"([{"rfilename":"a","size":1e30}])"),
        list(R"([{"rfilename":"a"}])"), list(R"([{"rfilename":"a","lfs":{"size":5}}])"),
        list(R"([7])"), std::string(R"({"sha":"main","siblings":[]})")})
    EXPECT_THROW(parse_hugging_face(text, "r"), Error) << text;
  for (const std::string text :
       {R"({"Data":{"Files":[{"Path":"/etc/x","Type":"blob","Size":1}]}})", R"({"Data":null})",
        R"({"Message":"no"})", R"({"Data":{"Files":[{"Path":"x","Size":1}]}})"})
    EXPECT_THROW(parse_modelscope(text, "r"), Error) << text;
  for (const std::string text :
       {R"({"layers":[]})", R"({"layers":[{"mediaType":"x","digest":"sha256:..","size":1}]})",
        R"({"config":{},"layers":[]})",
        R"({"layers":[{"mediaType":"x","digest":"../../x","size":1}]})"})
    EXPECT_THROW(parse_ollama_manifest(text, "r"), Error) << text;
}

}  // namespace
}  // namespace graft::hub
