// Where the documents of the sandboxed frames come from: the server of the page, or the page itself in an editor.

export interface Frames {
  /** The attributes of a panel frame. The frame must have them before it is part of the page. */
  panel(): { src?: string; srcdoc?: string };
  /** Prepares a diagram frame before it is part of the page. */
  diagram(frame: HTMLIFrameElement): Promise<void>;
}

const ofServer: Frames = {
  panel: () => ({ src: '/panel/frame.html' }),
  diagram(frame) {
    frame.src = '/panel/diagram.html';
    return Promise.resolve();
  },
};

export let frames = ofServer;

/** Called once, before anything is shown. */
export function useFrames(other: Frames): void {
  frames = other;
}
