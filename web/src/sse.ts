// Server-sent events from bytes that come in pieces of any size, cut anywhere.

export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private data: string[] = [];

  // The data of every event that these bytes complete.
  push(bytes: Uint8Array): string[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    // A CR at the end may be half of a CRLF.
    for (let match; (match = /\r\n|\n|\r(?!$)/.exec(this.rest)); ) {
      const line = this.rest.slice(0, match.index);
      this.rest = this.rest.slice(match.index + match[0].length);
      const event = this.line(line);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  private line(line: string): string | undefined {
    if (line === "") {
      if (this.data.length === 0) return undefined;
      const event = this.data.join("\n");
      this.data = [];
      return event;
    }
    if (line.startsWith("data:")) this.data.push(line.slice(line[5] === " " ? 6 : 5));
    return undefined; // comments and other fields say nothing here
  }
}

export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const parser = new EventParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {}); // whoever stops listening stops the answer
  }
}
