// Versions of a message: answering again or editing a question keeps what was there, with all that followed. The
// conversation's list of messages is the chosen path; the first message of another path is reached through
// `versions` of the message in its place.

import type { Message } from "./store";

export interface Versions {
  list: Message[][];
  current: number;
}

// Every message, also of paths that are not chosen.
export function* everyMessage(messages: Message[]): Generator<Message> {
  for (const message of messages) {
    yield message;
    for (const path of message.versions ?? []) yield* everyMessage(path);
  }
}

// Takes the path from message `at` on out of the list. The result is for `attach`.
export function cut(messages: Message[], at: number): Versions {
  const path = messages.splice(at);
  const { versions = [[]], version = 0 } = path[0]!;
  delete path[0]!.versions;
  delete path[0]!.version;
  const list = [...versions];
  list[version] = path;
  return { list: [...list, []], current: list.length };
}

// Makes `message` the newest of the versions that `cut` returned.
export function attach(message: Message, { list, current }: Versions): void {
  message.versions = list;
  message.version = current;
}

export function switchTo(messages: Message[], at: number, wanted: number): void {
  const { list } = cut(messages, at);
  list.pop(); // the place for a new one
  const path = list[wanted]!;
  list[wanted] = [];
  attach(path[0]!, { list, current: wanted });
  messages.push(...path);
}

// Removes the chosen version at `at`, with all that follows, and goes back to version `wanted`.
export function drop(messages: Message[], at: number, wanted: number): void {
  const dropped = messages[at]?.version ?? 0;
  if (dropped === wanted) return;
  switchTo(messages, at, wanted);
  const head = messages[at]!;
  head.versions!.splice(dropped, 1);
  head.version = wanted > dropped ? wanted - 1 : wanted;
  if (head.versions!.length > 1) return;
  delete head.versions;
  delete head.version;
}

// Removes message `at` and all that follows for good, to put another one in its place.
export function renew(messages: Message[], at: number): Versions | undefined {
  const [{ versions, version = 0 } = {}] = messages.splice(at);
  return versions && { list: versions, current: version };
}
