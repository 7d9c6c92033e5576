// The connection of the page with one panel frame: hand-shake, checks, and what is sent when.
import { limits, type Fill, type FromFrame, type Init, type ToFrame } from '../panel-frame/messages';
import { Guard } from './guard';

export interface ChannelEvents {
  /** Events, files, links and keys of the frame. */
  message(message: FromFrame): void;
  /** The frame did something that it must not do. */
  attack(reason: string): void;
  /** The frame did not answer in time. */
  silent(): void;
  /** The newest HTML is shown. */
  shown(): void;
}

/** Between two HTML texts for one frame. A component can change its panel more often. */
const pause = 100;

export class Channel {
  private port: MessagePort | null = null;
  private readonly guard = new Guard();
  private loads = 0;
  private seq = 0;
  private ready = false;
  private waiting = false;
  private html: string | null = null;
  private vars: Record<string, string> = {};
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(private readonly label: string, private readonly events: ChannelEvents, private readonly keys = false) {
    // Loading may take longer than showing, on a busy machine.
    this.watch(5 * limits.shown);
  }

  /** The frame has loaded. It does so once; a second time means that it went to another document. */
  loaded(frame: HTMLIFrameElement): void {
    if (this.closed) return;
    this.loads += 1;
    if (this.loads > 1 || !frame.contentWindow) {
      this.fail('it tried to open another document');
      return;
    }
    const channel = new MessageChannel();
    this.port = channel.port1;
    this.port.onmessage = (event) => this.take(event.data);
    this.port.onmessageerror = () => this.fail('it sent a message that cannot be read');
    const init: Init = { kind: 'init', v: 1, panel: this.label, ...(this.keys ? { keys: true } : {}) };
    // The frame has no origin that could be named. There is nothing secret in the message.
    frame.contentWindow.postMessage(init, '*', [channel.port2]);
  }

  show(html: string): void {
    this.html = html;
    this.next();
  }

  theme(vars: Record<string, string>): void {
    this.vars = vars;
    if (this.ready) this.send({ t: 'theme', vars });
  }

  fill(seq: number, at: number, fill: Fill): void {
    if (seq === this.seq) this.send({ t: 'fill', seq, at, fill });
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.port?.close();
    this.port = null;
  }

  private send(message: ToFrame): void {
    this.port?.postMessage(message);
  }

  /** Sends the newest HTML when the frame has shown the one before. */
  private next(): void {
    if (!this.ready || this.waiting || this.closed || this.html === null) return;
    this.seq += 1;
    this.waiting = true;
    this.guard.expect(this.seq);
    this.send({ t: 'html', seq: this.seq, html: this.html });
    this.html = null;
    this.watch(limits.shown);
  }

  private take(data: unknown): void {
    if (this.closed) return;
    const message = this.guard.take(data, performance.now());
    if ('attack' in message) {
      this.fail(message.attack);
    } else if (message.t === 'ready') {
      this.ready = true;
      clearTimeout(this.timer);
      this.send({ t: 'theme', vars: this.vars });
      this.next();
    } else if (message.t === 'shown') {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.waiting = false;
        this.next();
      }, pause);
      this.events.shown();
    } else {
      this.events.message(message);
    }
  }

  private watch(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.close();
      this.events.silent();
    }, ms);
  }

  private fail(reason: string): void {
    this.close();
    this.events.attack(reason);
  }
}
